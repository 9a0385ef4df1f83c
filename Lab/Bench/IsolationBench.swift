import APNSSimulator
import Glibc
import Harness
import Platform
import RedisQueue

/// Measures what one disturbed app of three costs the other two, and what happens to its jobs afterwards.
///
/// For each kind of disturbance, runs with it and runs of the same jobs without it alternate: on a machine with other load, only
/// the two runs of a pair are comparable.
struct IsolationBench {
    var kinds = Disturbance.allCases
    /// Of the other apps, in each run.
    var jobs = 20_000
    var pairs = 3

    /// Prints a line for each kind, and returns the figures.
    func measure() throws -> JSON {
        say("two apps beside a disturbed one: \(jobs) jobs of theirs per run, \(pairs) pairs of runs per kind\n")
        say("kind         of the rate    (pairs)             commands/s  AOF bytes/s  order   lost  doubled")
        return .array(
            try kinds.map { kind in
                var run = try IsolationRun(kind, jobs: jobs)
                return try run.measure(pairs: pairs)
            })
    }
}

/// One kind of disturbance, with a daemon of its own.
private struct IsolationRun {
    private let kind: Disturbance
    private let jobs: Int
    private let stage: Stage
    private let disturbedApp: DisturbedApp
    private let daemon: DaemonProcess
    /// The jobs that were pushed so far of the disturbed app, and of the others.
    private var (disturbed, others) = (0, 0)

    /// Jobs of the disturbed app that wait before a run.
    private static let waiting = 5_000

    init(_ kind: Disturbance, jobs: Int) throws {
        (self.kind, self.jobs) = (kind, jobs)
        let redis = try RedisServer(options: ["--appendonly", "yes", "--appendfsync", "everysec"])
        stage = try Stage(on: redis) { folder in
            try HostedSimulator(folder: folder) { $0.ledgerDetail = .requests(keepsBodies: false) }
        }
        disturbedApp = try DisturbedApp("one", of: stage, seed: 1)
        let near = Stage.app(at: stage.service.port, keyID: "SIMKEY0001")
        let apps = #"{"one": \#(disturbedApp.settings), "two": \#(near), "three": \#(near)}"#
        let settings = try stage.write([
            "apps": apps, "pool_size": "1", "retry_delays": "[5]", "apns_request_timeout": "20", "apns_dial_backoff_max": "5",
        ])
        daemon = try stage.start(settings)
    }

    mutating func measure(pairs: Int) throws -> JSON {
        defer { daemon.process.kill(SIGKILL) }
        for _ in 0..<2 {
            try push(disturbed: 50, others: 100)
            try awaitDrained()
        }
        var shares = Figures()
        var (commands, bytes) = (0.0, 0.0)
        for _ in 0..<pairs {
            let undisturbed = try timeOfOthers(besides: jobs / 2)
            try awaitDrained()
            try stage.disturb(disturbedApp, by: kind)
            try push(disturbed: Self.waiting, others: 0)
            Poller.sleep(.seconds(3))
            shares.values.append(undisturbed / (try timeOfOthers(besides: jobs / 2)))
            let activity = try costOfWaiting()
            (commands, bytes) = (max(commands, activity.commands), max(bytes, activity.bytes))
            try stage.disturb(disturbedApp, by: nil)
            try awaitDrained()
        }
        let accepted = stage.simulator.ledger.acceptedCounts
        let dead = Set(try stage.deadLetterCounts().tokens)
        let lost = disturbed + others - Set(accepted.keys).union(dead).count
        let doubled = accepted.values.count { $0 > 1 }
        let inversions = inversions()
        guard daemon.stop()?.status == 0 else { throw LabError(description: daemon.standardError) }
        let list = shares.values.map { decimal(100 * $0, 0) }.joined(separator: ", ")
        say(
            kind.rawValue.padded(13) + "\(decimal(100 * shares.median, 0)) %".padded(15) + "(\(list))".padded(20)
                + decimal(commands, 0).padded(12) + decimal(bytes, 0).padded(13)
                + (inversions == 0 ? "kept" : "\(inversions)").padded(8) + "\(lost)".padded(6) + "\(doubled)")
        return .object([
            ("kind", .text(kind.rawValue)), ("share", .number(shares.median, digits: 3)),
            ("commands_per_second", .number(commands, digits: 0)), ("log_bytes_per_second", .number(bytes, digits: 0)),
            ("out_of_order", .integer(inversions)), ("lost", .integer(lost)), ("doubled", .integer(doubled)),
        ])
    }

    // MARK: Jobs

    /// One job in three is of the disturbed app, as long as there are any.
    private mutating func push(disturbed: Int, others: Int, to list: String = Stage.list) throws {
        let first = (self.disturbed, DisturbedApp.firstOfOthers + self.others)
        let mixed = (0..<max(2 * disturbed, others)).lazy.flatMap { place in
            let own = place % 2 == 0 && place / 2 < disturbed ? [BenchJob.text(first.0 + place / 2, app: "one")] : []
            return own + (place < others ? [BenchJob.text(first.1 + place, app: place % 2 == 0 ? "two" : "three")] : [])
        }
        try stage.push(mixed, to: list)
        self.disturbed += disturbed
        self.others += others
    }

    /// Seconds until the jobs of the other apps are accepted.
    private mutating func timeOfOthers(besides disturbed: Int) throws -> Double {
        try push(disturbed: disturbed, others: jobs, to: "beside")
        let last = (1...20).map { deviceToken(DisturbedApp.firstOfOthers + others - $0) }
        let ledger = stage.simulator.ledger
        let start = Instant.now
        try stage.command("RENAME", "beside", Stage.list)
        try waitFor("the other apps") { last.allSatisfy { !ledger.requests(for: $0).isEmpty } }
        return (Instant.now - start) / .seconds(1)
    }

    private func awaitDrained() throws { try waitFor("no job waits") { try stage.status().isDrained } }

    private func waitFor(_ what: String, _ condition: () throws -> Bool) throws {
        try stage.await("\(kind): timeout: \(what)", every: .milliseconds(5), condition)
    }

    /// The number of jobs of the disturbed app, among those that were sent once, that left after a later one. The streams of a
    /// connection are in the order of their requests.
    private func inversions() -> Int {
        let ledger = stage.simulator.ledger
        let sent = ledger.entries.filter { $0.token.hasPrefix(DisturbedApp.tokens) && ledger.requests(for: $0.token).count == 1 }
        var (count, newest) = (0, "")
        for entry in sent.sorted(by: { ($0.connection, $0.stream) < ($1.connection, $1.stream) }) {
            if entry.token < newest { count += 1 } else { newest = entry.token }
        }
        return count
    }

    // MARK: Redis

    /// Commands and bytes of append-only file per second while only jobs of the disturbed app wait.
    private func costOfWaiting() throws -> (commands: Double, bytes: Double) {
        Poller.sleep(.seconds(2))
        let (before, start) = (try stage.activity(), Instant.now)
        Poller.sleep(.seconds(5))
        let (after, seconds) = (try stage.activity(), (Instant.now - start) / .seconds(1))
        return (Double(after.commands - before.commands) / seconds, Double(after.logBytes - before.logBytes) / seconds)
    }
}

extension String {
    /// With blanks behind it.
    fileprivate func padded(_ width: Int) -> String { self + String(repeating: " ", count: max(1, width - count)) }
}
