import APNSSimulator
import Glibc
import Harness
import Platform
internal import RedisQueue

/// Sessions that continue in spite of many errors.
extension Fault {
    static let sessionRows = [errors, poisoned]

    /// More errors than any window, table or counter of a session could hold if an error left something behind.
    private static let errors = Fault(
        number: 57, name: "errors", title: "100,000 error responses on one session", rule: .nothingTwice, isQuick: true
    ) { trial in
        let streams = 100
        try trial.open(
            hosting: Behaviour(), settings: ["pool_size": "1", "apns_max_concurrent_streams": String(streams)])
        let daemon = try trial.start()
        // Before the first acceptance, suspect tokens would hold the app.
        try trial.queue(1)
        try trial.awaitSent(1)
        trial.stage.simulator.behave { $0.script = ErrorMix.script(seed: trial.seed) }
        try trial.queue(trial.jobs(80_000))
        let watch = try ErrorWatch(trial, daemon)
        trial.count(watch.errors)
        watch.judge(leastErrors: trial.scale == .full ? 100_000 : 4000)
        try judgeStreams(trial, streams)
        trial.afterwards = { status in
            try ErrorMix.judge(trial, status)
            let seen = trial.stage.simulator.totals
            if seen.connections != 1 { trial.fail("\(seen.connections) connections instead of one") }
            if seen.limitViolations + seen.refusedStreams > 0 { trial.fail("the client exceeded the stream limit") }
        }
    }

    /// Verifies that no error occupies a place of the session's table: the maximum number of streams is open at once. A request
    /// without a place would start only after another response.
    private static func judgeStreams(_ trial: Trial, _ streams: Int) throws {
        let latency = Duration.seconds(2)
        // A session gives up a stream for each refused one, and six responses return it.
        trial.stage.simulator.behave { $0.script = APNSSimulator.Script() }
        try trial.queue(7 * streams)
        try trial.awaitDrained("the session has all streams")
        trial.stage.simulator.behave { $0.script = APNSSimulator.Script(latency: latency...latency) }
        let before = trial.stage.simulator.totals.requests
        try trial.queue(streams)
        try trial.await("the first of \(streams) requests is answered") { trial.stage.simulator.totals.requests > before }
        let isFull = waitUntil(atMost: latency / 2) { trial.stage.simulator.totals.requests == before + streams }
        if !isFull { trial.fail("\(trial.stage.simulator.totals.requests - before) streams of \(streams) were open at once") }
        try trial.awaitDrained()
    }

    /// The server of one of four sessions fails permanently: it responds only with 500, only with 403, or never. The daemon must
    /// replace the session.
    private static let poisoned = Fault(
        number: 58, name: "poisoned-session", title: "one of 4 sessions responds only with 500, with 403, or never",
        rule: .nothingTwice,
        isQuick: true
    ) { trial in
        // Enough that another session has room for each resend, also after a pause of a busy machine.
        let streams = 200
        try trial.open(
            hosting: Trial.accepting(after: 5...15), remembers: true,
            settings: ["pool_size": "4", "apns_max_concurrent_streams": String(streams), "apns_request_timeout": "1"])
        try trial.start()
        try trial.produce(perSecond: 1000)
        var victims: [Int] = []
        try trial.injectAgain(12) { turn in
            let poison = Poison.allCases[turn % 3]
            try trial.settleDown(sessions: 4)
            let before = trial.complaints(poison.complaint)
            victims.append(try trial.poison(poison))
            try trial.await("the daemon notices") { trial.complaints(poison.complaint) > before }
        }
        try trial.settleDown(sessions: 4)
        trial.afterwards = { status in Fault.PoisonAccounting(trial, victims, streams: streams).judge(status) }
    }
}

extension Fault {
    /// The faults of a poisoned session.
    fileprivate enum Poison: CaseIterable {
        case serverError, credential, silence

        var answer: Answer {
            switch self {
            case .serverError: .usual(500)
            case .credential: .usual(403)
            case .silence: .silent
            }
        }

        /// The text in the log that shows that the daemon noticed.
        var complaint: String {
            switch self {
            case .serverError: "three responses of 500 in a row"
            case .credential: "APNs does not accept the credential"
            case .silence: "a request got no response"
            }
        }
    }
}

extension Trial {
    /// Waits until all sessions are open and all failed pushes were sent again.
    fileprivate func settleDown(sessions: Int) throws {
        try self.await("\(sessions) sessions are open") { stage.simulator.totals.openConnections == sessions }
        try self.await("no retry waits") { try status().delayed == 0 }
        // Retries are sent before new jobs.
        try awaitSent(try stage.sent() + 500)
    }

    /// Poisons a recently used session, and returns the number of its connection.
    fileprivate func poison(_ poison: Fault.Poison) throws -> Int {
        let used = Set(stage.simulator.ledger.entries.suffix(200).map(\.connection)).sorted()
        let victim = used.randomElement(using: &random)!
        stage.simulator.behave { $0.connections = [.init(victim, poison.answer)] }
        return victim
    }
}

extension Fault {
    /// The outcomes of the pushes on poisoned sessions.
    fileprivate struct PoisonAccounting {
        let trial: Trial
        /// Connections, by turn.
        let victims: [Int]
        let streams: Int
        private let entries: [LedgerEntry]

        fileprivate init(_ trial: Trial, _ victims: [Int], streams: Int) {
            (self.trial, self.victims, self.streams) = (trial, victims, streams)
            entries = trial.stage.simulator.ledger.entries
        }

        func judge(_ status: QueueStatus) {
            if status.dead > 0 { trial.fail("\(status.dead) dead letters because of a session") }
            let failures = entries.filter { $0.verdict != .accepted(isAnswered: true) }
            for victim in victims {
                // Good responses may come between its first errors, and all open requests fail.
                let count = failures.count { $0.connection == victim }
                if !(1...3 * streams).contains(count) { trial.fail("\(count) failures on a session with \(streams) streams") }
            }
            let counted = failures.count { $0.verdict.isCounted }
            if status.counter(.retried) != counted {
                trial.fail("\(status.counter(.retried)) counted retries; expected \(counted)")
            }
            let again = trial.complaints("Retrying count (2)")
            if again > 0 { trial.fail("\(again) jobs were counted twice because of one session") }
            judgeSessions()
        }

        /// Verifies that a push that failed on one session was sent again over another one.
        private func judgeSessions() {
            var last: [String: LedgerEntry] = [:]
            var repeated = 0
            for entry in entries {
                if let before = last[entry.token], before.connection == entry.connection { repeated += 1 }
                last[entry.token] = entry
            }
            if repeated > 0 { trial.fail("\(repeated) resends used the session that had failed them") }
        }
    }
}

extension Verdict {
    /// A 403 is a fault of the credential and costs no retry.
    fileprivate var isCounted: Bool {
        switch self {
        case .silent, .refused(500, _): true
        default: false
        }
    }
}

/// A mix of error responses, and the outcome of each job by the retry table.
enum ErrorMix {
    /// Every 40th request gets 500: three of them in a row would end the session.
    static func script(seed: UInt64) -> APNSSimulator.Script {
        APNSSimulator.Script(
            seed: seed,
            failures: [
                .init(.reason(.badDeviceToken), 0.05), .init(.reason(.badCollapseId), 0.05), .init(.usual(410), 0.05),
                .init(.usual(413), 0.05), .init(.usual(429), 0.2), .init(.usual(503), 0.25), .init(.resetStream(code: 2), 0.1),
                .init(.resetStream(code: 7), 0.05),
            ], turns: [.init(40, repeats: true, .usual(500))])
    }

    /// The outcome of a job.
    private enum End: Hashable {
        case delivered
        case dead(status: Int)
        /// There are too few or too many responses.
        case wrong
    }

    /// docs/design.md, "Effect of a response", once more and independently: 429, 500 and 503 are counted and the fourth is one
    /// too many, streams that were reset (status 0) are not, and everything else is final.
    private static func end(of statuses: [Int]) -> (end: End, counted: Int) {
        var counted = 0
        for (place, status) in statuses.enumerated() {
            let isLast = place == statuses.count - 1
            switch status {
            case 200: return (isLast ? .delivered : .wrong, counted)
            case 0: continue
            case 429, 500, 503:
                if counted == 3 { return (isLast ? .dead(status: status) : .wrong, counted) }
                counted += 1
            default: return (isLast ? .dead(status: status) : .wrong, counted)
            }
        }
        return (.wrong, counted)
    }

    static func judge(_ trial: Trial, _ status: QueueStatus) throws {
        let statuses = trial.stage.ledger.statuses
        let ends = statuses.mapValues { end(of: $0) }
        let wrong = ends.filter { $0.value.end == .wrong }.keys
        for token in wrong.prefix(5) { trial.fail("\(token) got only the responses \(statuses[token, default: []])") }
        let (dead, reasons) = try trial.stage.deadLetterCounts()
        let wanted = ends.filter { if case .dead = $0.value.end { true } else { false } }.keys
        if dead.count != wanted.count || Set(dead) != Set(wanted) {
            trial.fail("\(dead.count) dead letters; expected \(wanted.count)")
        }
        judgeReasons(trial, reasons, ends.values.map(\.end))
        judgeCounters(trial, status, counted: ends.values.reduce(0) { $0 + $1.counted })
    }

    private static func judgeReasons(_ trial: Trial, _ reasons: [String: Int], _ ends: [End]) {
        let answers = trial.stage.simulator.totals.answers
        func final(_ answer: String) -> Int { answers[answer, default: 0] }
        func exhausted(_ status: Int) -> Int { ends.count { $0 == .dead(status: status) } }
        let wanted = [
            "BadDeviceToken": final("400 BadDeviceToken"), "BadCollapseId": final("400 BadCollapseId"),
            "Unregistered": final("410 Unregistered"), "PayloadTooLarge": final("413 PayloadTooLarge"),
            "TooManyRequests": exhausted(429), "InternalServerError": exhausted(500), "ServiceUnavailable": exhausted(503),
        ].filter { $0.value > 0 }
        if reasons != wanted { trial.fail("dead letters \(reasons); expected \(wanted)") }
    }

    private static func judgeCounters(_ trial: Trial, _ status: QueueStatus, counted: Int) {
        let answers = trial.stage.simulator.totals.answers
        let (doubtful, refused) = (answers["RST_STREAM 2", default: 0], answers["RST_STREAM 7", default: 0])
        let rejectedTokens = answers["400 BadDeviceToken", default: 0] + answers["410 Unregistered", default: 0]
        let wanted = [
            ("retried", status.counter(.retried), counted), ("resent", status.counter(.resent), doubtful + refused),
            ("maybe_duplicate", status.counter(.maybeDuplicate), doubtful), ("feedback", status.feedback, rejectedTokens),
        ]
        for (name, found, right) in wanted where found != right { trial.fail("\(name) is \(found); expected \(right)") }
    }
}

/// Observes a run until all jobs are settled: the errors, the memory, and that the daemon never stops sending.
struct ErrorWatch {
    /// The longest time without a response. The last suspect responses are settled after 60 s unless another push is accepted.
    private static let mostStill = Duration.seconds(90)
    /// KB that the memory may grow from the first tenth of the errors to the last. The daemon remembers the last 10,000 device
    /// tokens that had to wait, which takes 6 MB (measured).
    private static let mostGrowth = Sanitizer.memoryBound(8 << 20) >> 10
    /// KB from the sixth tenth of a full run to the last, when that memory is full: further growth is a leak. This is 17 bytes
    /// for each error.
    private static let mostLateGrowth = 1 << 10

    private let trial: Trial
    private(set) var errors = 0
    private var memory: [(errors: Int, bytes: Int)] = []

    init(_ trial: Trial, _ daemon: DaemonProcess) throws {
        self.trial = trial
        var last = (requests: 0, at: Instant.now)
        var (errors, memory) = (0, memory)
        try trial.await("all are settled", atMost: .seconds(300)) {
            let seen = trial.stage.simulator.totals
            errors = seen.answers.values.reduce(0, +)
            memory.append((errors, daemon.residentBytes))
            if seen.requests > last.requests { last = (seen.requests, .now) }
            if .now - last.at > Self.mostStill {
                throw TrialError(description: "no response for \(Self.mostStill):\n" + trial.logs)
            }
            return try trial.status().isDrained
        }
        (self.errors, self.memory) = (errors, memory)
    }

    func judge(leastErrors: Int) {
        if errors < leastErrors { trial.fail("\(errors) errors; expected at least \(leastErrors)") }
        var tenths = [Int](repeating: 0, count: 10)
        for sample in memory {
            let tenth = min(9, sample.errors * 10 / max(1, errors))
            tenths[tenth] = max(tenths[tenth], sample.bytes >> 10)
        }
        let isLeaking = trial.scale == .full && tenths[9] - tenths[5] > Self.mostLateGrowth
        if isLeaking || tenths[9] - tenths[0] > Self.mostGrowth { trial.fail("memory in KB, by tenths of the errors: \(tenths)") }
    }
}
