/// The words in which a command line speaks of scripts.
extension Script.Share {
    /// Reads `ANSWER:SHARE`, such as `503:2%`, `429:TooManyRequests:0.5%` or `cut:0.01%`.
    public init(_ text: String) throws(ScriptSyntaxError) {
        guard let colon = text.lastIndex(of: ":") else {
            throw ScriptSyntaxError("'\(text)': a share is missing, as in 503:2%")
        }
        self.init(try Answer(text[..<colon]), try Script.fraction(String(text[text.index(after: colon)...])))
    }
}

extension Script.TokenPlan {
    /// Reads `HEXPREFIX=ANSWER,ANSWER,…`; an answer followed by `*N` counts N times.
    public init(_ text: String) throws(ScriptSyntaxError) {
        let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard sides.count == 2, sides[0].allSatisfy(\.isHexDigit) else {
            throw ScriptSyntaxError("'\(text)': HEXPREFIX=ANSWER,ANSWER,… is what a token's plan looks like")
        }
        var answers: [Answer] = []
        for word in sides[1].split(separator: ",") {
            let parts = word.split(separator: "*", maxSplits: 1)
            guard let first = parts.first, let times = parts.count == 1 ? 1 : Int(parts[1]), (1...1_000_000).contains(times)
            else { throw ScriptSyntaxError("'\(word)': N in ANSWER*N is 1 to 1000000") }
            answers += Array(repeating: try Answer(first), count: times)
        }
        self.init(prefix: String(sides[0]), answers: answers)
    }
}

extension Script {
    /// Reads `2%` or `0.02` as 0.02.
    public static func fraction(_ text: String) throws(ScriptSyntaxError) -> Double {
        let number = text.hasSuffix("%") ? Double(text.dropLast()).map { $0 / 100 } : Double(text)
        guard let number, (0...1).contains(number) else {
            throw ScriptSyntaxError("'\(text)' is no share between 0% and 100%")
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
        guard low <= high else { throw ScriptSyntaxError("'\(text)': the shorter time comes first") }
        return low...high
    }
}
