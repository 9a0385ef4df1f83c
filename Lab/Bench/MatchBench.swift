import Glibc
import Harness
import Platform
import RedisQueue

/// Measures a match, channels whose limits change at random and that get a state each second, beside pushes to devices of these
/// daemons: the devices' rate with and without it. Before that, the bytes of Redis for each state that waits.
struct MatchBench {
    /// Pushes to devices of each measured round.
    var jobs = 200_000
    /// Rounds of each kind, which alternate.
    var rounds = 5
    var channels = 50
    var daemons = 2
    /// Seconds of the match, in which its responses of 429 are counted.
    var seconds = 600
    /// Tokens with a state that waits.
    var scopes = 100_000

    /// Prints the figures, and returns them.
    func measure() throws -> JSON { .object(try memory() + match()) }

    private static func data(_ event: String) -> String { #"{"aps":{"event":"\#(event)","content-state":{"score":"1:0"}}}"# }

    // MARK: Memory

    private func memory() throws -> [(String, JSON)] {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false)
        let daemon = try stage.start(try stage.write())
        try stage.push(BenchJob.text(0))
        try wait(for: "the first push", stage) { try stage.sent() == 1 }
        let empty = try usedMemory(stage)
        func state(_ number: Int) -> String {
            let members = #""replaces":"score","not_before":4000000000,"data":\#(Self.data("update"))"#
            return #"{"token":"\#(deviceToken(number))",\#(members)}"#
        }
        try stage.push((0..<scopes).lazy.map(state))
        try wait(for: "a state in each slot", stage) { try stage.status().states == scopes }
        // The lists of the claims are gone as soon as nothing is in flight.
        try wait(for: "no claim", stage) { try stage.status().inFlight == 0 }
        let each = Double(try usedMemory(stage) - empty) / Double(scopes)
        let job = state(0).utf8.count
        daemon.process.kill(SIGKILL)
        say("Redis: \(decimal(each, 0)) bytes for each of \(scopes) states that wait, of which the job has \(job)")
        return [("states", .integer(scopes)), ("bytes_per_state", .number(each, digits: 0)), ("bytes_of_job", .integer(job))]
    }

    // MARK: The match

    /// What one state each second and channel needs to know.
    private struct Producer {
        let channels: Int
        private let begin = Instant.now
        private var pushed = 0

        init(channels: Int) { self.channels = channels }

        /// Pushes the states that are due.
        mutating func produce(_ stage: Stage) throws {
            let due = Int((Instant.now - begin) / .seconds(1)) + 1
            for second in pushed..<max(pushed, due) {
                let members = #""replaces":"score","identifier":\#(second),"data":\#(MatchBench.data("update"))"#
                try stage.push((0..<channels).map { #"{"channel_name":"match-\#($0)",\#(members)}"# })
            }
            pushed = max(pushed, due)
        }
    }

    private func match() throws -> [(String, JSON)] {
        let options = ["--token-streams", "1000", "--channel-rate", "2..12/60s"]
        let stage = try Stage(simulator: options, ledger: false, pinned: 1)
        let settings = try stage.write([
            "pool_size": "\"auto\"", "channels": #"{"match-*": {"storage": "latest", "create": true}}"#,
        ])
        let fleet = try (0..<daemons).map { try stage.start(settings, name: "daemon\($0)", pinned: 0) }
        defer { for daemon in fleet { daemon.process.kill(SIGKILL) } }
        try stage.push(BenchJob.text(0))
        try wait(for: "the first push", stage) { try stage.sent() == 1 }
        // The first round is not measured: the pools grow.
        _ = try round(stage, fleet) {}
        var (without, with) = ([Round](), [Round]())
        var producer = Producer(channels: channels)
        try producer.produce(stage)
        try wait(for: "the channels", stage) { try stage.command("HLEN", stage.keys.channels).integer == Int64(channels) }
        let (begin, counted) = (Instant.now, try stage.counter(.postponed))
        for _ in 0..<rounds {
            without.append(try round(stage, fleet) {})
            with.append(try round(stage, fleet) { try producer.produce(stage) })
        }
        _ = try waitUntil(atMost: .seconds(seconds + 60), every: .milliseconds(50)) {
            try producer.produce(stage)
            return .now - begin >= .seconds(seconds)
        }
        let hours = (Instant.now - begin) / .seconds(3600)
        let refused = Double(try stage.counter(.postponed) - counted) / hours / Double(channels)
        let superseded = try stage.counter(.superseded)
        let speeds = Figures(values: zip(with, without).map { $0.rate / $1.rate })
        let costs = Figures(values: zip(with, without).map { $0.processor / $1.processor })
        func text(_ ratios: Figures) -> String {
            let (least, most) = (decimal(ratios.least * 100, 1), decimal(ratios.most * 100, 1))
            return "\(decimal(ratios.median * 100, 1)) % (\(least) - \(most))"
        }
        let medians = [without, with].map { decimal(Figures(values: $0.map(\.rate)).median, 0) }
        say(
            "\(daemons) daemons, \(jobs) pushes a round, \(rounds) rounds: \(medians[0]) pushes/s alone, "
                + "\(medians[1]) beside a match of \(channels) channels")
        say("with / without: pushes/s \(text(speeds)), processor time of daemons and Redis per push \(text(costs))")
        say(
            "\(decimal(refused, 1)) responses of 429 per channel and hour in \(decimal(hours * 60, 1)) min, "
                + "\(superseded) superseded"
        )
        return [
            ("without", .array(without.map { .number($0.rate, digits: 0) })),
            ("with", .array(with.map { .number($0.rate, digits: 0) })),
            ("median_ratio", .number(speeds.median, digits: 3)), ("processor_ratio", .number(costs.median, digits: 3)),
            ("refused_per_channel_and_hour", .number(refused, digits: 1)), ("superseded", .integer(superseded)),
        ]
    }

    private struct Round {
        /// The devices' pushes per second.
        let rate: Double
        /// Seconds of the daemons and of Redis for each push. Other work of the machine changes them less than the rate.
        let processor: Double
    }

    /// The few states that are sent meanwhile count too: some hundred of `jobs`.
    private func round(_ stage: Stage, _ fleet: [DaemonProcess], _ meanwhile: () throws -> Void) throws -> Round {
        func used() -> Duration { fleet.reduce(processorTime(stage.redis.process.pid)) { $0 + $1.processorTime } }
        let (sent, before) = (try stage.sent(), used())
        let begin = Instant.now
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        try stage.await("the pushes to devices did not end:", atMost: .seconds(600), every: .milliseconds(5)) {
            try meanwhile()
            return try stage.sent() >= sent + jobs
        }
        let length = (Instant.now - begin) / .seconds(1)
        return Round(rate: Double(jobs) / length, processor: (used() - before) / .seconds(1) / Double(jobs))
    }

    private func wait(for condition: String, _ stage: Stage, _ isTrue: () throws -> Bool) throws {
        try stage.await("\(condition) did not come:", every: .milliseconds(50), isTrue)
    }
}
