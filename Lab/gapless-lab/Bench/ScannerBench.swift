import Clocks
import Harness
import JSONBytes

/// How fast jobs are checked against the whole grammar of JSON, on one processor.
struct ScannerBench {
    var rounds = 200
    var runs = 5

    /// Prints a line; returns its part of the JSON.
    func measure() throws -> String {
        // One in ten has escapes and letters beyond ASCII, as jobs have.
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
            "scanner, whole grammar, jobs of \(decimal(mean, 0)) bytes: \(speeds.text(2)) GB/s, "
                + "\(decimal(mean / speeds.median, 0)) ns a job")
        return "  \"scanner\": {\"bytes_per_job\": \(decimal(mean, 0)), \"gigabytes_per_second\": \(speeds.json)}"
    }
}
