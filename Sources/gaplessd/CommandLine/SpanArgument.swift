import ArgumentParser

/// A span of time on the command line: `30`, `90s`, `10m`, `2h` or `1d`.
struct SpanArgument: ExpressibleByArgument, Equatable {
    let duration: Duration

    /// The longest span: 100 years.
    private static let mostSeconds = 3_155_760_000.0

    init?(argument: String) {
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let unit = argument.last.flatMap { units[$0] }
        let digits = unit == nil ? argument[...] : argument.dropLast()
        guard let first = digits.first, first.isASCII, first.isNumber, digits.allSatisfy({ "0123456789.".contains($0) }),
            let number = Double(digits)
        else { return nil }
        let seconds = number * (unit ?? 1)
        guard seconds > 0, seconds <= Self.mostSeconds else { return nil }
        duration = .seconds(seconds)
    }
}
