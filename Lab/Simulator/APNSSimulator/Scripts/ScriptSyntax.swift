// The syntax of scripts on the command line.

extension Script.Share {
    /// Reads `ANSWER:SHARE`, such as `503:2%`, `429:TooManyRequests:0.5%` or `cut:0.01%`.
    public init(_ text: String) throws(ScriptSyntaxError) {
        guard let colon = text.lastIndex(of: ":") else {
            throw ScriptSyntaxError("'\(text)' lacks a share; expected ANSWER:SHARE, such as 503:2%")
        }
        self.init(try Answer(text[..<colon]), try Script.fraction(String(text[text.index(after: colon)...])))
    }
}

extension Script.TokenPlan {
    /// Reads `HEXPREFIX=ANSWER,ANSWER,…`. `ANSWER*N` repeats N times, and a last `ANSWER*` without end.
    public init(_ text: String) throws(ScriptSyntaxError) {
        let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard sides.count == 2, sides[0].allSatisfy(\.isHexDigit) else {
            throw ScriptSyntaxError("'\(text)' is not a token plan; expected HEXPREFIX=ANSWER,ANSWER,…")
        }
        var answers: [Answer] = []
        let isEndless = sides[1].hasSuffix("*")
        for word in (isEndless ? sides[1].dropLast() : sides[1]).split(separator: ",") {
            let parts = word.split(separator: "*", maxSplits: 1)
            guard let first = parts.first, let times = parts.count == 1 ? 1 : Int(parts[1]), (1...1_000_000).contains(times)
            else { throw ScriptSyntaxError("'\(word)': N in ANSWER*N must be 1 to 1000000") }
            answers += Array(repeating: try Answer(first), count: times)
        }
        self.init(prefix: String(sides[0]), answers: answers, repeatsLast: isEndless)
    }
}

extension Script.Turn {
    /// Reads `N=ANSWER`.
    public init(_ text: String, repeats: Bool) throws(ScriptSyntaxError) {
        let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard sides.count == 2, let number = Int(sides[0]), number > 0 else {
            throw ScriptSyntaxError("'\(text)' is not a turn; expected N=ANSWER with N of at least 1")
        }
        self.init(number, repeats: repeats, try Answer(sides[1]))
    }
}

extension Behaviour.ConnectLimit {
    /// Reads `COUNT/WINDOW:BLOCK`, as in `20/1s:5s`.
    public init(_ text: String) throws(ScriptSyntaxError) {
        let sides = text.split(separator: ":").map(String.init)
        guard sides.count == 2 else {
            throw ScriptSyntaxError("'\(text)' is not a connect limit; expected COUNT/WINDOW:BLOCK, such as 20/1s:5s")
        }
        let (count, window) = try Script.rate(sides[0])
        self.init(count: count, window: window, block: try Duration(milliseconds: sides[1]))
    }
}

extension Behaviour.Refusal {
    /// Reads `certificate`, `certificate=REASON` or `KEYID=REASON`.
    public init(_ text: String) throws(ScriptSyntaxError) {
        let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let reason = sides.count == 2 ? Reason(rawValue: sides[1]) : nil
        guard let name = sides.first, !name.isEmpty, reason != nil || text == "certificate" else {
            throw ScriptSyntaxError(
                "'\(text)' is not a refusal; expected certificate, certificate=REASON or KEYID=REASON, "
                    + "such as SIMKEY0001=InvalidProviderToken")
        }
        self.init(name == "certificate" ? .certificate : .key(name), reason)
    }
}

extension Behaviour.LimitWalk {
    /// Reads `INTERVAL=LOWEST..HIGHEST`, as in `50ms=0..1000`.
    public init(_ text: String) throws(ScriptSyntaxError) {
        let sides = text.split(separator: "=").map(String.init)
        let ends = (sides.last ?? "").split(separator: ".").compactMap { UInt32($0) }
        guard sides.count == 2, ends.count == 2, ends[0] <= ends[1], ends[1] < 1 << 31 else {
            throw ScriptSyntaxError("'\(text)' is not a limit walk; expected INTERVAL=LOWEST..HIGHEST, such as 50ms=0..1000")
        }
        let interval = try Duration(milliseconds: sides[0])
        guard interval >= .milliseconds(1) else { throw ScriptSyntaxError("'\(text)': the interval must be at least 1 ms") }
        self.init(interval: interval, bounds: ends[0]...ends[1])
    }
}

extension Behaviour {
    /// Reads `settings`, `nothing`, `tarpit` or `goaway[:KIND[:TEXT]]`, with an optional share: `nothing=10%`.
    public mutating func greet(_ text: String) throws(ScriptSyntaxError) {
        let sides = text.split(separator: "=", maxSplits: 1).map(String.init)
        greetingShare = sides.count == 2 ? try Script.fraction(sides[1]) : 1
        let parts = (sides.first ?? "").split(separator: ":", maxSplits: 1).map(String.init)
        switch (parts.first, parts.count > 1 ? parts[1] : nil) {
        case ("settings", nil): greeting = .settings
        case ("nothing", nil): greeting = .nothing
        case ("tarpit", nil): greeting = .tarpit
        case ("goaway", let kind): greeting = .goAway(try GoAway.kind(kind ?? "zero").0)
        default:
            throw ScriptSyntaxError("'\(text)' is not a greeting; expected settings, nothing, tarpit or goaway[:KIND[:TEXT]]")
        }
    }

    /// Reads `TIME=FAULT`, as in `30s=goaway`.
    public mutating func idle(_ text: String) throws(ScriptSyntaxError) {
        let sides = text.split(separator: "=", maxSplits: 1).map(String.init)
        guard sides.count == 2, let fault = IdleFault(rawValue: sides[1]) else {
            throw ScriptSyntaxError("'\(text)' is not an idle fault; expected TIME=FAULT with goaway, 400 or 500")
        }
        idleLimit = try Duration(milliseconds: sides[0])
        idleFault = fault
    }
}

extension Behaviour.ChannelRate {
    /// Reads `COUNT/TIME` or `LOWEST..HIGHEST/TIME`, as in `2..12/60s`.
    public init(_ text: String) throws(ScriptSyntaxError) {
        let sides = text.split(separator: "/", maxSplits: 1).map(String.init)
        let ends = (sides.first ?? "").split(separator: ".").map { Int($0) ?? -1 }
        guard sides.count == 2, let low = ends.first, let high = ends.last, ends.count <= 2, 0 <= low, low <= high,
            high <= 1_000_000
        else {
            throw ScriptSyntaxError("'\(text)' is not a channel rate; expected LOWEST..HIGHEST/TIME, such as 2..12/60s")
        }
        self.init(low...high, per: try Duration(milliseconds: sides[1]))
    }
}

extension Script {
    /// Reads `COUNT/TIME`.
    static func rate(_ text: String) throws(ScriptSyntaxError) -> (count: Int, window: Duration) {
        let sides = text.split(separator: "/", maxSplits: 1).map(String.init)
        guard sides.count == 2, let count = Int(sides[0]), count >= 0 else {
            throw ScriptSyntaxError("'\(text)' is not a rate; expected COUNT/TIME, such as 5/10s")
        }
        return (count, try Duration(milliseconds: sides[1]))
    }

    /// Reads `2%` or `0.02`.
    public static func fraction(_ text: String) throws(ScriptSyntaxError) -> Double {
        let number = text.hasSuffix("%") ? Double(text.dropLast()).map { $0 / 100 } : Double(text)
        guard let number, (0...1).contains(number) else {
            throw ScriptSyntaxError("'\(text)' is not a share; expected 0% to 100%")
        }
        return number
    }

    /// Reads `20ms` or `20ms..40ms`.
    public static func latency(_ text: String) throws(ScriptSyntaxError) -> ClosedRange<Duration> {
        guard let dots = text.firstRange(of: "..") else {
            let only = try Duration(milliseconds: text)
            return only...only
        }
        let low = try Duration(milliseconds: text[..<dots.lowerBound])
        let high = try Duration(milliseconds: text[dots.upperBound...])
        guard low <= high else { throw ScriptSyntaxError("'\(text)': the shorter time must come first") }
        return low...high
    }
}

/// An invalid value on the command line, with the expected form.
public struct ScriptSyntaxError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String
    init(_ description: String) { self.description = description }
}
