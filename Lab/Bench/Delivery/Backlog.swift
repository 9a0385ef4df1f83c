import Harness
import Platform

/// Measures the resident memory of the daemon while a million jobs wait: the queue is in Redis, not in the daemon.
struct Backlog {
    var jobs = 1_000_000

    /// Prints a line, and returns its figures.
    func measure() throws -> JSON {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false, pinned: 1)
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        let start = Instant.now
        let daemon = try stage.start(try stage.write(), pinned: 0)
        var memory: [Int] = []
        let isDone = try waitUntil(atMost: .seconds(180), every: .milliseconds(20)) {
            memory.append(daemon.residentBytes)
            return try stage.sent() >= jobs
        }
        let rate = Double(jobs) / ((Instant.now - start) / .seconds(1))
        let settled = memory.dropFirst(memory.count / 5)
        let peak = daemon.peakBytes
        guard isDone, let low = settled.min(), let high = settled.max(), daemon.stop()?.status == 0 else {
            throw LabError(description: "the backlog did not drain:\n" + daemon.standardError)
        }
        say(
            "backlog of \(jobs): resident \(megabytes(low)) - \(megabytes(high)) MB while it drains, peak \(megabytes(peak)) MB, "
                + "\(decimal(rate, 0)) pushes/s")
        return .object([
            ("jobs", .integer(jobs)), ("resident_bytes_min", .integer(low)), ("resident_bytes_max", .integer(high)),
            ("peak_bytes", .integer(peak)), ("pushes_per_second", .number(rate, digits: 0)),
        ])
    }
}
