import Harness
import JSONBytes
import Platform

/// Measures the validation of jobs against the complete JSON grammar, on one processor.
struct ScannerBench {
    var rounds = 200
    var runs = 5

    /// Prints a line, and returns its figures.
    func measure() throws -> JSON {
        // One job in ten has escapes and non-ASCII characters.
        let jobs = (0..<5000).map { number in
            let text = number % 10 == 0 ? #"Gr\u00fc\u00dfe, \"世界\" 😀 "# : "Hello, "
            return Array(BenchJob.text(number).replacing("\"title\":\"Bench\"", with: "\"title\":\"\(text)\(number)\"").utf8)
        }
        let bytes = jobs.reduce(0) { $0 + $1.count } * rounds
        var speeds = Figures()
        for _ in 0..<runs {
            let start = Instant.now
            for _ in 0..<rounds {
                for job in jobs {
                    var cursor = JSONCursor()
                    _ = try cursor.value(in: job.span)
                    try cursor.finish(in: job.span)
                }
            }
            speeds.values.append(Double(bytes) / ((.now - start) / .seconds(1)) / 1e9)
        }
        let mean = Double(bytes) / Double(rounds * jobs.count)
        say(
            "scanner, complete grammar, jobs of \(decimal(mean, 0)) bytes: \(speeds.text(2)) GB/s, "
                + "\(decimal(mean / speeds.median, 0)) ns per job")
        return .object([("bytes_per_job", .number(mean, digits: 0)), ("gigabytes_per_second", speeds.json)])
    }
}
