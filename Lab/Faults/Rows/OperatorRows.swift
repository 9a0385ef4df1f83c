import Glibc
import Harness
internal import Platform
internal import RedisQueue

/// Calls of operators on long lists, beside a daemon that works and another client of Redis.
extension Fault {
    static let operatorCallRows = [operatorCalls]

    /// Calls walk 300,000 dead letters, and then as many waiting jobs, of 4 KB each. Some calls are killed while they move jobs,
    /// and repeated. The time that another client waits for Redis is printed, and not judged: it depends on the machine.
    private static let operatorCalls = Fault(
        number: 82, name: "operator-calls", title: "dead requeue, dead purge, cancel, --undo in long lists, kill -9",
        rule: .ofWhatRedisKept, isQuick: true
    ) { trial in
        try trial.open()
        try trial.start()
        try trial.queue(100)
        try trial.awaitDrained("the daemon works")
        let probe = try Trial.LatencyProbe(trial.stage.server)
        trial.pause(.seconds(1))
        trial.noteLatency(probe, during: "no call")
        let size = trial.scale == .full ? 300_000 : 600
        try trial.changeLetters(size, probe)
        try trial.cancelJobs(size, probe)
        probe.stop()
    }
}

extension Trial {
    private static let blocks = 10

    /// Requeues or purges blocks in the middle of the dead letters, and then requeues the others.
    fileprivate func changeLetters(_ size: Int, _ probe: LatencyProbe) throws {
        let block = size / Self.blocks
        let letters = try queue(size, to: stage.keys.dead) { Self.letter($0, block: $0 / block) }
        let first = letters.lowerBound / block
        // The blocks are numbered by the jobs: the first and the last one may be incomplete.
        let middle = (first + 2..<first + 8).shuffled(using: &random).prefix(scale == .full ? 6 : 2)
        let lists = [stage.keys.dead, stage.keys.deadPassed]
        // Each call reads a letter twice and moves it once, and the daemon reads the requeued ones.
        let most = Steps(evals: size / 10, bytes: 10 * 4096 * size)
        var left = size
        var purged: Set<Int> = []
        for (index, number) in middle.enumerated() {
            let isPurge = index % 2 == 1
            let call = ["dead", isPurge ? "purge" : "requeue", "--reason", "Block\(number)"] + (isPurge ? ["--yes"] : [])
            if isPurge { purged.formUnion(letters.filter { $0 / block == number }) }
            excuse(purged)
            try inject { try operate(call, killedIn: index < 2 ? lists : [], probe, most: most) }
            left -= block
            try judgeLength(left, of: lists, after: call)
        }
        try inject { try operate(["dead", "requeue"], killedIn: lists, probe, most: most) }
        try judgeLength(0, of: lists, after: ["dead", "requeue"])
        try awaitDrained("the requeued jobs are sent", atMost: .seconds(600), every: .milliseconds(50))
        afterwards = { [unowned self] status in
            let sent = stage.ledger.accepted
            let wrong = purged.count { sent[deviceToken($0)] != nil }
            if wrong > 0 { fail("\(wrong) purged dead letters were sent") }
            if status.counter(.maybeDuplicate) > 0 { fail("maybe_duplicate is \(status.counter(.maybeDuplicate))") }
        }
    }

    /// Cancels one block, then all jobs, of a paused list; puts the block back, and then, while the daemon works, the others.
    fileprivate func cancelJobs(_ size: Int, _ probe: LatencyProbe) throws {
        let block = size / Self.blocks
        try operate(["pause"], probe)
        let jobs = try queue(size) { Self.largeJob($0, block: $0 / block) }
        let number = String((jobs.lowerBound + jobs.count / 2) / block)
        let cancelled = [stage.keys.cancelled, stage.keys.cancelledPassed]
        // A step moves five jobs at least.
        let most = Steps(evals: size, bytes: .max)
        try inject { try operate(["cancel", "--identifier", number, "--yes"], probe, most: most) }
        try judgeLength(block, of: cancelled, after: ["cancel --identifier"])
        try inject { try operate(["cancel", "--topic", Stage.topic, "--yes"], killedIn: cancelled, probe, most: most) }
        try judgeLength(size, of: cancelled, after: ["cancel --topic"])
        try judgeLength(0, of: [stage.keys.list], after: ["cancel --topic"])
        try inject { try operate(["cancel", "--undo", "--identifier", number, "--yes"], probe, most: most) }
        try judgeLength(size - block, of: cancelled, after: ["cancel --undo --identifier"])
        try judgeLength(block, of: [stage.keys.list], after: ["cancel --undo --identifier"])
        // This also ends a pause of the call that was killed.
        try operate(["resume"], probe)
        try inject { try operate(["cancel", "--undo", "--yes"], killedIn: cancelled, probe, most: most) }
        try judgeLength(0, of: cancelled, after: ["cancel --undo"])
        try awaitDrained("the jobs are sent", atMost: .seconds(600), every: .milliseconds(50))
    }

    fileprivate struct Steps {
        var evals = Int.max
        /// To and from Redis, by all clients together.
        var bytes = Int.max
    }

    /// Runs a call to its end.
    ///
    /// - Parameters:
    ///   - lists: if there are any, another run is killed first, soon after the length of the first of them has changed.
    ///   - most: bounds of the last run.
    fileprivate func operate(
        _ call: [String], killedIn lists: [String] = [], _ probe: LatencyProbe, most: Steps = Steps()
    ) throws {
        _ = probe.takeWorst()
        if let list = lists.first {
            let length = try stage.command("LLEN", list).integer
            let process = try stage.startCall(call, output: "calls.log")
            try self.await("\(call) begins to move jobs", atMost: .seconds(600)) {
                try stage.command("LLEN", list).integer != length || process.poll() != nil
            }
            pause(scale == .full ? 0...2000 : 0...20)
            process.kill(SIGKILL)
            _ = process.wait()
        }
        let before = (try scriptCalls(), try traffic())
        let exit = try stage.startCall(call, output: "calls.log").wait(atMost: .seconds(1800))
        if exit?.status != 0 {
            let log = File.read(stage.folder.file("calls.log"))
            throw TrialError(description: "\(call) ended with \(String(describing: exit)):\n" + log)
        }
        let (evals, bytes) = (try scriptCalls() - before.0, try traffic() - before.1)
        if evals > most.evals { fail("\(call) took \(evals) scripts; at most \(most.evals) are allowed") }
        if bytes > most.bytes { fail("\(call) took \(bytes) bytes; at most \(most.bytes) are allowed") }
        noteLatency(probe, during: call.joined(separator: " "), "\(evals) scripts, \(bytes) bytes")
    }

    fileprivate func noteLatency(_ probe: LatencyProbe, during call: String, _ more: String = "") {
        let worst = probe.takeWorst() / .milliseconds(1)
        let tenths = Int(worst * 10)
        note("\(call): another client waits \(tenths / 10).\(tenths % 10) ms at most" + (more.isEmpty ? "" : "; \(more)"))
    }

    /// Verifies the number of elements in lists.
    private func judgeLength(_ length: Int, of lists: [String], after call: [String]) throws {
        let lengths = try lists.map { try stage.command("LLEN", $0).integer ?? 0 }
        if lengths.reduce(0, +) != length { fail("after \(call), the lists have \(lengths) elements; expected \(length)") }
        if lengths.count > 1, lengths[1] > 0 { fail("after \(call), \(lengths[1]) elements were not put back") }
    }

    private func traffic() throws -> Int {
        try info("stats", "total_net_input_bytes") + info("stats", "total_net_output_bytes")
    }

    private static func largeJob(_ number: Int, block: Int) -> String {
        let text = String(repeating: "x", count: 3800)
        return #"{"token":"\#(deviceToken(number))","identifier":\#(block),"topic":"\#(Stage.topic)","#
            + #""data":{"aps":{"alert":"\#(text)"}}}"#
    }

    /// A record as the daemon writes it.
    private static func letter(_ number: Int, block: Int) -> String {
        let parts = largeJob(number, block: block).split(separator: "\"", omittingEmptySubsequences: false)
        let job = parts.joined(separator: #"\""#)
        return #"{"reason": "Block\#(block)", "status": 400, "apns_id": null, "identifier": \#(block), "#
            + #""token": "\#(deviceToken(number))", "attempts": 1, "at": 1700000000, "worker": "lab", "job": "\#(job)"}"#
    }
}

extension Trial {
    /// Another client of Redis: measures the time of each reply to a small command, on its own thread.
    fileprivate final class LatencyProbe {
        private struct State: Sendable {
            var isOver = false
            var worst = Duration.zero
        }

        private let state: Locked<State>
        private var thread: OwnedThread?

        init(_ server: QueueSettings) throws {
            let state = Locked(State())
            self.state = state
            thread = try OwnedThread(name: "latency probe") {
                guard var client = try? RedisClient(settings: server) else { return }
                while !state.withLock({ $0.isOver }) {
                    let begin = Instant.now
                    guard (try? client.command(["PING"])) != nil else { return }
                    let took = Instant.now - begin
                    state.withLock { $0.worst = max($0.worst, took) }
                    Poller.sleep(.milliseconds(1))
                }
            }
        }

        deinit { stop() }

        /// Returns the longest time since the last call.
        func takeWorst() -> Duration {
            state.withLock { state in
                defer { state.worst = .zero }
                return state.worst
            }
        }

        func stop() {
            state.withLock { $0.isOver = true }
            thread.take()?.join()
        }
    }
}
