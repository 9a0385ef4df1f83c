import Glibc
import Harness
import JSONBytes

/// The values of a quantity that was measured several times.
struct Figures {
    var values: [Double] = []

    var median: Double { percentile(50) }
    var least: Double { values.min() ?? 0 }
    var most: Double { values.max() ?? 0 }

    /// The value that this percentage of the values does not exceed.
    func percentile(_ percent: Double) -> Double {
        let sorted = values.sorted()
        if sorted.isEmpty { return 0 }
        return sorted[min(sorted.count - 1, Int(Double(sorted.count) * percent / 100))]
    }

    /// The median, with the minimum and the maximum in parentheses.
    func text(_ digits: Int) -> String {
        "\(decimal(median, digits)) (\(decimal(least, digits)) - \(decimal(most, digits)))"
    }

    var json: JSON {
        .object([
            ("median", .number(median, digits: 3)), ("min", .number(least, digits: 3)), ("max", .number(most, digits: 3)),
        ])
    }
}

/// Formats a number with this many digits after the point.
func decimal(_ value: Double, _ digits: Int) -> String {
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = Int((value * scale).rounded())
    let sign = scaled < 0 ? "-" : ""
    if digits == 0 { return String(scaled) }
    let fraction = String(scaled.magnitude % UInt(scale))
    return "\(sign)\(scaled.magnitude / UInt(scale))." + String(repeating: "0", count: digits - fraction.count) + fraction
}

func megabytes(_ bytes: Int) -> String { decimal(Double(bytes) / 1_048_576, 1) }

/// Values of the JSON report of the benchmarks.
indirect enum JSON {
    case text(String)
    case number(Double, digits: Int)
    case array([JSON])
    /// Members in order.
    case object([(String, JSON)])

    static func integer(_ number: Int) -> JSON { .number(Double(number), digits: 0) }

    /// The text, with one line per member of the outer levels.
    func bytes(indent: Int = 0) -> [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes, indent: indent)
        return bytes
    }

    private func write(to bytes: inout [UInt8], indent: Int) {
        func list(_ open: Character, _ close: Character, _ count: Int, isFlat: Bool, _ item: (Int, inout [UInt8]) -> Void) {
            let line = isFlat ? "" : "\n" + String(repeating: "  ", count: indent + 1)
            bytes += String(open).utf8
            for index in 0..<count {
                if index > 0 { bytes += (isFlat ? ", " : ",").utf8 }
                bytes += line.utf8
                item(index, &bytes)
            }
            if !isFlat && count > 0 { bytes += ("\n" + String(repeating: "  ", count: indent)).utf8 }
            bytes += String(close).utf8
        }
        switch self {
        case .text(let text): bytes.appendJSONString(text)
        case .number(let value, let digits): bytes += decimal(value, digits).utf8
        case .array(let items):
            list("[", "]", items.count, isFlat: false) { items[$0].write(to: &$1, indent: indent + 1) }
        case .object(let members):
            list("{", "}", members.count, isFlat: indent > 1) { index, bytes in
                bytes.appendJSONString(members[index].0)
                bytes += ": ".utf8
                members[index].1.write(to: &bytes, indent: indent + 1)
            }
        }
    }
}

/// The machine of the figures.
enum Machine {
    static var description: String {
        let model = File.read("/proc/cpuinfo").split(separator: "\n").first { $0.hasPrefix("model name") }
        let name = model.flatMap { $0.split(separator: ":").last }.map { $0.drop { $0 == " " } } ?? "unknown processor"
        let kernel = File.read("/proc/sys/kernel/osrelease").split(separator: "\n").first ?? ""
        return "\(sysconf(CInt(_SC_NPROCESSORS_ONLN))) x \(name), Linux \(kernel)"
    }
}

/// A failed run.
struct LabError: Error, CustomStringConvertible {
    var description: String
}

extension Stage {
    /// Returns an error with the end of the standard errors of all daemons.
    func failure(_ text: String) -> LabError { LabError(description: text + "\n" + standardErrors.suffix(3000)) }

    /// Waits for a condition, and throws `failure` at the limit.
    func await(
        _ failure: String, atMost limit: Duration = .seconds(300), every interval: Duration, _ condition: () throws -> Bool
    ) throws {
        guard try waitUntil(atMost: limit, every: interval, condition) else { throw self.failure(failure) }
    }
}
