import APNSSimulator
import Glibc
import Harness
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
        try trial.await("the session has all streams") { try trial.status().isDrained }
        trial.stage.simulator.behave { $0.script = APNSSimulator.Script(latency: latency...latency) }
        let before = trial.stage.simulator.totals.requests
        try trial.queue(streams)
        try trial.await("the first of \(streams) requests is answered") { trial.stage.simulator.totals.requests > before }
        let isFull = waitUntil(atMost: latency / 2) { trial.stage.simulator.totals.requests == before + streams }
        if !isFull { trial.fail("\(trial.stage.simulator.totals.requests - before) streams of \(streams) were open at once") }
        try trial.await("all are settled") { try trial.status().isDrained }
    }

    /// The server of one of four sessions fails permanently: it responds only with 500, only with 403, or never. The daemon must
    /// replace the session.
    private static let poisoned = Fault(
        number: 58, name: "poisoned-session", title: "one of 4 sessions responds only with 500, with 403, or never",
        rule: .nothingTwice,
        isQuick: true
    ) { trial in
        let streams = 50
        try trial.open(
            hosting: Trial.accepting(after: 5...15), remembers: true,
            settings: ["pool_size": "4", "apns_max_concurrent_streams": String(streams), "apns_request_timeout": "1"])
        try trial.start()
        try trial.produce(perSecond: 1000)
        var victims: [Int] = []
        for turn in 0..<trial.times(12) {
            let poison = Poison.allCases[turn % 3]
            try trial.settleDown(sessions: 4)
            let before = trial.complaints(poison.complaint)
            try trial.inject {
                victims.append(try trial.poison(poison))
                try trial.await("the daemon notices") { trial.complaints(poison.complaint) > before }
            }
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
