import Glibc
import Harness
internal import JSONBytes
import Platform
internal import RedisQueue

/// Faults of the delivery of results.
extension Fault {
    static let relayRows = [relay, slowReceiver]

    /// The daemon writes a result in the step that settles the job, and a relay acknowledges it after the response of the
    /// receiver. So each kill can repeat the batches in flight, and loses no result.
    private static let relay = Fault(
        number: 73, name: "relay", title: "kill -9 of a daemon, a relay or the receiver of results", rule: .onlyWhatWasInFlight
    ) { trial in
        let receiver = ResultReceiver()
        try trial.open(settings: try receiver.settings())
        try trial.produce(perSecond: 1000)
        var daemon = try trial.start()
        var relays = try (0..<2).map { _ in try trial.startRelay() }
        for _ in 0..<trial.times(60) {
            trial.pause(0...400)
            try trial.inject {
                switch trial.draw(0...2) {
                case 0: daemon = try trial.killAndRestart(daemon)
                case 1:
                    let killed = relays.remove(at: trial.draw(0...1))
                    killed.kill(SIGKILL)
                    _ = killed.wait(atMost: .seconds(30))
                    relays.append(try trial.startRelay())
                    receiver.allowRepeats(of: 1)
                default:
                    receiver.kill()
                    trial.pause(0...200)
                    _ = try receiver.start()
                    receiver.allowRepeats(of: relays.count)
                }
            }
            // A job in three crashes becomes a dead letter: its jobs are sent before the next kill.
            try trial.await("another daemon takes over its jobs") { try trial.status().recovered == 0 }
        }
        trial.afterwards = { status in
            try trial.await("the receiver has every result", atMost: .seconds(60)) {
                try receiver.hasAll(in: trial.stage)
            }
            trial.end(relays)
            let settled = status.counter(.sent) + status.counter(.dead) + status.counter(.expired)
            if receiver.results.count != settled { trial.fail("\(receiver.results.count) results for \(settled) settled pushes") }
            if receiver.repeats > receiver.mostRepeats {
                trial.fail("\(receiver.repeats) results arrived twice, at most \(receiver.mostRepeats) are allowed")
            }
            try trial.stage.command("DEL", ResultReceiver.stream)
        }
    }

    /// The receiver refuses large bodies, is slow, or refuses one result, and never accepts a full batch: the relays post smaller
    /// ones. Only the refused result is set aside.
    private static let slowReceiver = Fault(
        number: 81, name: "relay-slow", title: "a receiver that refuses large bodies, is slow, or refuses a result",
        rule: .nothingTwice, isQuick: true
    ) { trial in
        let receiver = ResultReceiver()
        try trial.open(settings: try receiver.settings())
        try trial.start()
        let relays = try (0..<2).map { _ in try trial.startRelay() }
        var refused: Set<String> = []
        // A slow receiver costs a relay its timeout of 10 s.
        let kinds: [Trial.Reluctance] = trial.scale == .full ? Trial.Reluctance.allCases : [.size, .content]
        for number in 0..<(trial.scale == .full ? 12 : 2) {
            let kind = kinds[number % kinds.count]
            let count = kind == .time ? 300 : trial.jobs(10_000)
            var limits = ResultReceiver.Limits()
            switch kind {
            case .size: limits.bytes = trial.draw(2000...64_000)
            case .time: limits.timePerResult = .milliseconds(60)
            case .content:
                let token = deviceToken(trial.queued + trial.draw(0...count - 1))
                limits.refused = token
                refused.insert(token)
            }
            receiver.limit(limits)
            let before = receiver.requests.count
            try trial.inject {
                try trial.queue(count)
                try trial.await("each result is accepted or set aside", atMost: .seconds(300), every: .milliseconds(50)) {
                    try trial.status().isDrained && trial.isRelayed()
                }
            }
            trial.judge(receiver.requests.dropFirst(before), of: relays.count)
        }
        receiver.limit(.init())
        trial.afterwards = { status in
            trial.end(relays)
            try trial.judgeResults(receiver, refused: refused)
            try trial.stage.command("DEL", ResultReceiver.stream, trial.stage.keys.refused)
        }
    }
}

extension Trial {
    /// The reason of a receiver for not accepting a batch.
    fileprivate enum Reluctance: CaseIterable {
        case size, time, content
    }

    /// Whether the relays have read and acknowledged every result.
    fileprivate func isRelayed() throws -> Bool {
        let group = try stage.command("XINFO", "GROUPS", ResultReceiver.stream).items?.first?.items ?? []
        let newest = try stage.command("XREVRANGE", ResultReceiver.stream, "+", "-", "COUNT", "1").items?.first?.items?.first?
            .text
        let pending = try stage.command("XPENDING", ResultReceiver.stream, "gapless-relay").items?.first?.integer
        return pending == 0 && newest != nil && group.contains { $0.text == newest }
    }

    /// Verifies that batches became smaller at once, and were not posted again and again.
    fileprivate func judge(_ requests: ArraySlice<HTTPReceiver.Request>, of relays: Int) {
        let late = requests.count { $0.isLate }
        // A batch is halved eight times at most.
        if late > 8 * relays { fail("\(late) requests had no response in time") }
        let accepted = requests.count { $0.status == 200 }
        let refused = requests.count - accepted
        if refused > accepted + 16 * relays { fail("\(refused) requests were refused, and \(accepted) accepted") }
    }

    /// Verifies that each settled push has a result, which the receiver has or the relays have set aside.
    fileprivate func judgeResults(_ receiver: ResultReceiver, refused: Set<String>) throws {
        let entries = try stage.command("XLEN", ResultReceiver.stream).integer ?? 0
        let records = try stage.command("LRANGE", stage.keys.refused, "0", "-1").items?.compactMap(\.text) ?? []
        let aside = Set(refused.filter { token in records.contains { $0.contains(token) } })
        if records.count != refused.count || aside != refused {
            fail("\(records.count) results were set aside; expected the \(refused.count) that the receiver refused")
        }
        if entries != queued { fail("\(entries) results for \(queued) pushes") }
        if receiver.results.count + records.count != queued {
            fail("the receiver has \(receiver.results.count) results, and \(records.count) were set aside, of \(queued)")
        }
        if receiver.repeats > receiver.lateResults {
            fail("\(receiver.repeats) results arrived twice, at most \(receiver.lateResults) are allowed")
        }
    }

    fileprivate func end(_ relays: [ChildProcess]) {
        for relay in relays {
            relay.kill(SIGTERM)
            if relay.wait(atMost: .seconds(30))?.status != 0 { fail("a relay did not exit with 0") }
        }
    }

    fileprivate func startRelay() throws -> ChildProcess { try stage.startCall(["relay"], output: "relay.log") }
}

/// The receiver of the results, always at one port. A request that it has read counts as stored, whether or not the response
/// reached the relay.
final class ResultReceiver {
    static let stream = "push_results"
    /// Entries of one request.
    private static let batch = 250

    /// The requests that the receiver refuses, and its speed.
    struct Limits: Sendable {
        /// Bytes of a body; 413 refuses a longer one.
        var bytes = Int.max
        /// The time for each result of a body.
        var timePerResult = Duration.zero
        /// A text of results; 400 refuses a body that contains one.
        var refused: String?
    }

    private let limits = Locked(Limits())
    private var server: HTTPReceiver?
    private var port = 0
    private var bodies: [String] = []
    /// The number of results that may arrive twice: the batches in flight at the kills.
    private(set) var mostRepeats = 0

    /// Starts and returns the URL.
    func start() throws -> String {
        let server = try HTTPReceiver(
            port: port,
            judge: { [limits] body in
                let limits = limits.withLock { $0 }
                if body.utf8.count > limits.bytes { return 413 }
                return limits.refused.map(body.contains) ?? false ? 400 : 200
            },
            pace: { [limits] body in
                let time = limits.withLock { $0.timePerResult }
                return time == .zero ? .zero : time * body.count { $0 == "{" }
            })
        self.server = server
        port = server.port
        return "http://127.0.0.1:\(port)/results"
    }

    /// Starts, and returns settings with its URL.
    func settings() throws -> [String: String?] {
        ["redis_results_key": "\"\(Self.stream)\"", "redis_lease": "2", "relay_url": "\"\(try start())\""]
    }

    /// Ends with all connections at once, as by kill -9.
    func kill() {
        // A request that is accepted while it ends counts too.
        server?.close()
        bodies += server?.accepted ?? []
        server = nil
    }

    func limit(_ new: Limits) { limits.withLock { $0 = new } }

    /// The requests since the last start.
    var requests: [HTTPReceiver.Request] { server?.requests ?? [] }

    func allowRepeats(of batches: Int) { mostRepeats += batches * Self.batch }

    /// The ids of all results that arrived, with their numbers.
    var results: [String: Int] {
        var counts: [String: Int] = [:]
        for body in bodies + (server?.accepted ?? []) {
            guard case .array(let results)? = try? JSONValue.parse(Array(body.utf8)) else { continue }
            for result in results { counts[result["id"]?.stringValue ?? "", default: 0] += 1 }
        }
        return counts
    }

    var repeats: Int { results.values.reduce(0) { $0 + $1 - 1 } }

    /// The number of results in requests whose response came too late: they arrive again.
    var lateResults: Int {
        requests.filter { $0.isLate && $0.status == 200 }.reduce(0) { $0 + $1.body.count { $0 == "{" } }
    }

    func hasAll(in stage: Stage) throws -> Bool {
        let entries = try stage.command("XRANGE", Self.stream, "-", "+").items ?? []
        return Set(entries.compactMap { $0.items?.first?.text }).isSubset(of: results.keys)
    }
}
