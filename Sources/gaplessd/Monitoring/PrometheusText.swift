/// Metrics in Prometheus' text format 0.0.4 ("Exposition formats", prometheus.io/docs).
struct PrometheusText {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    enum Kind: String { case gauge, counter, histogram }

    struct Sample {
        /// The end of the name: `_bucket` and others of a histogram.
        var suffix = ""
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

        /// The samples of a histogram, whose buckets include those below them.
        static func histogram(_ histogram: LatencyHistogram, _ labels: (String, String)...) -> [Sample] {
            func sample(_ suffix: String, _ value: String, _ bound: String? = nil) -> Sample {
                var sample = Sample(0)
                sample.suffix = suffix
                sample.labels = labels.map { (name: $0.0, value: $0.1) } + (bound.map { [(name: "le", value: $0)] } ?? [])
                sample.value = value
                return sample
            }
            var count = 0
            var samples: [Sample] = []
            for (index, bound) in (LatencyHistogram.bounds.map { "\($0)" } + ["+Inf"]).enumerated() {
                count += histogram.counts[index]
                samples.append(sample("_bucket", "\(count)", bound))
            }
            return samples + [sample("_sum", "\(histogram.sum)"), sample("_count", "\(count)")]
        }
    }

    private(set) var text = ""

    /// Adds a metric with all its samples. A metric without samples is left out.
    mutating func add(_ name: String, _ kind: Kind, _ help: String, _ samples: [Sample]) {
        if samples.isEmpty { return }
        text += "# HELP \(name) \(Self.escape(help, quotes: false))\n# TYPE \(name) \(kind.rawValue)\n"
        for sample in samples {
            let labels = sample.labels.map { "\($0.name)=\"\(Self.escape($0.value, quotes: true))\"" }.joined(separator: ",")
            text += name + sample.suffix + (labels.isEmpty ? " \(sample.value)\n" : "{\(labels)} \(sample.value)\n")
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
