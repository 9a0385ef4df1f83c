import Glibc
import Harness
import Platform
import RedisQueue

/// Measures the memory of Redis with a million jobs in the list, and when daemons have claimed as many of them as they can.
struct RedisMemory {
    /// The path of a daemon of 0.1.0, if there is one.
    let older: String?
    var jobs = 1_000_000
    /// A daemon holds at most 64 MB of jobs.
    var daemons = 6

    /// Prints a line for each version, and returns the figures.
    func measure() throws -> JSON {
        say("memory of Redis with \(jobs) jobs of \(BenchJob.text(jobs - 1).utf8.count) bytes, \(daemons) daemons, APNs silent\n")
        say(
            padRight("", 14) + padLeft("all waiting, MB", 18) + padLeft("in flight", 12) + padLeft("waiting", 12)
                + padLeft("MB", 10) + padLeft("bytes per job waiting", 24) + padLeft("in flight", 12))
        var records = [try measure("this version", nil)]
        if let older {
            records.append(try measure("0.1.0", older))
        } else {
            say("0.1.0 was not measured: run scripts/older-daemon, or set --older")
        }
        return .array(records)
    }

    private func measure(_ version: String, _ program: String?) throws -> JSON {
        let streams = "20000"
        let silent = String(deviceToken(0).prefix(2)) + "=silent*"
        let stage = try Stage(
            simulator: ["--max-streams", streams, "--token-streams", streams, "--token", silent], ledger: false)
        let empty = try usedMemory(stage)
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) }, to: Self.aside)
        let waiting = try usedMemory(stage)
        let settings = try stage.write([
            "pool_size": "10", "apns_max_concurrent_streams": streams, "apns_request_timeout": "600",
        ])
        let running = try (1...daemons).map { try stage.start(settings, name: "daemon\($0)", program: program) }
        defer { for daemon in running { daemon.process.kill(SIGKILL) } }
        try awaitAcceptances(stage)
        try stage.command("RENAME", Self.aside, Stage.list)
        let status = try claimed(stage)
        let memory = try usedMemory(stage)
        let perWaiting = Double(waiting - empty) / Double(jobs)
        let perHeld = (Double(memory - empty) - perWaiting * Double(status.backlog)) / Double(status.inFlight)
        say(
            padRight(version, 14) + padLeft(megabytes(waiting), 18) + pad(status.inFlight, 12) + pad(status.backlog, 12)
                + padLeft(megabytes(memory), 10) + padLeft(decimal(perWaiting, 0), 24) + padLeft(decimal(perHeld, 0), 12))
        return .object([
            ("version", .text(version)), ("jobs", .integer(jobs)), ("waiting_bytes", .integer(waiting)),
            ("in_flight", .integer(status.inFlight)), ("still_waiting", .integer(status.backlog)),
            ("in_flight_bytes", .integer(memory)), ("bytes_per_waiting_job", .number(perWaiting, digits: 0)),
            ("bytes_per_job_in_flight", .number(perHeld, digits: 0)),
        ])
    }

    /// The list of the jobs until each daemon may claim them.
    private static let aside = "aside"

    /// Sends jobs until each daemon has an acceptance: before it, a daemon claims only a few jobs.
    private func awaitAcceptances(_ stage: Stage) throws {
        let isReady = try waitUntil(atMost: .seconds(60), every: .milliseconds(100)) {
            try stage.push(repeatElement(#"{"token":"cd","data":{"aps":{"alert":"Hello"}}}"#, count: 2 * daemons))
            let workers = try stage.status().workers
            return workers.count == daemons && workers.allSatisfy { $0.details["sent", default: "0"] != "0" }
        }
        guard try isReady && stage.drains() else {
            throw stage.failure("not every daemon has sent a job:")
        }
    }

    /// Waits until the daemons have claimed all jobs, or claim no more.
    private func claimed(_ stage: Stage) throws -> QueueStatus {
        var (status, last) = (try stage.status(), Instant.now)
        _ = try waitUntil(atMost: .seconds(300), every: .milliseconds(500)) {
            let next = try stage.status()
            if next.inFlight != status.inFlight { last = .now }
            status = next
            return status.backlog == 0 || .now - last > .seconds(10)
        }
        return status
    }
}

/// Returns the bytes that Redis uses.
func usedMemory(_ stage: Stage) throws -> Int {
    let reply = try stage.command("INFO", "memory")
    guard let bytes = reply.number(after: "used_memory:") else {
        throw LabError(description: "INFO memory has no used_memory: \(reply.text ?? "")")
    }
    return bytes
}

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
