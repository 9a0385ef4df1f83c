/// Metrics in Prometheus' text format 0.0.4 ("Exposition formats", prometheus.io/docs).
struct PrometheusText {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    enum Kind: String { case gauge, counter }

    struct Sample {
        var labels: [(name: String, value: String)]
        var value: String

        init(_ value: some BinaryInteger, _ labels: (String, String)...) {
            self.value = "\(value)"
            self.labels = labels
        }

        /// Seconds, rounded to the millisecond.
        init(seconds: Double, _ labels: (String, String)...) {
            value = "\((seconds * 1000).rounded() / 1000)"
            self.labels = labels
        }
    }

    private(set) var text = ""

    /// Adds a metric with all its samples. A metric without samples is left out.
    mutating func add(_ name: String, _ kind: Kind, _ help: String, _ samples: [Sample]) {
        if samples.isEmpty { return }
        text += "# HELP \(name) \(Self.escape(help, quotes: false))\n# TYPE \(name) \(kind.rawValue)\n"
        for sample in samples {
            let labels = sample.labels.map { "\($0.name)=\"\(Self.escape($0.value, quotes: true))\"" }.joined(separator: ",")
            text += labels.isEmpty ? "\(name) \(sample.value)\n" : "\(name){\(labels)} \(sample.value)\n"
        }
    }

    /// Escapes backslash and line break, and the quote in a label's value.
    private static func escape(_ text: String, quotes: Bool) -> String {
        guard text.utf8.contains(where: { $0 == 0x5C || $0 == 0x0A || $0 == 0x22 }) else { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
