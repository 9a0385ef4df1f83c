import APNSSimulator
import Glibc
import Harness
internal import RedisQueue

/// Sessions that go on while much is wrong with what comes over them.
extension Fault {
    static let sessionRows = [errors, poisoned]

    /// More errors than any window, table or counter of a session could hold if each left something behind.
    private static let errors = Fault(
        number: 57, name: "errors", title: "100,000 error answers on one session", rule: .nothingTwice, isQuick: true
    ) { trial in
        let streams = 100
        try trial.open(
            hosting: Behaviour(), settings: ["pool_size": "1", "apns_max_concurrent_streams": String(streams)])
        let daemon = try trial.start()
        // Before the first acceptance suspect tokens would hold the app.
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
            if seen.connections != 1 { trial.fail("\(seen.connections) connections, where one was to carry all") }
            if seen.limitViolations + seen.refusedStreams > 0 { trial.fail("more streams than allowed were open") }
        }
    }

    /// Not one place of the session's table is left over from an error: as many streams as it may have are open at once. What had
    /// no place would be answered a whole answer's time later.
    private static func judgeStreams(_ trial: Trial, _ streams: Int) throws {
        let latency = Duration.seconds(2)
        trial.stage.simulator.behave { $0.script = APNSSimulator.Script(latency: latency...latency) }
        let before = trial.stage.simulator.totals.requests
        try trial.queue(streams)
        try trial.await("the first of \(streams) is answered") { trial.stage.simulator.totals.requests > before }
        let isFull = waitUntil(atMost: latency / 2) { trial.stage.simulator.totals.requests == before + streams }
        if !isFull { trial.fail("\(trial.stage.simulator.totals.requests - before) streams of \(streams) were open at once") }
        try trial.await("all are settled") { try trial.status().isDrained }
    }

    /// The machine behind one of four sessions fails: it answers everything with 500, or with 403, or with nothing. It goes on so
    /// for good; the daemon is to leave it.
    private static let poisoned = Fault(
        number: 58, name: "poisoned-session", title: "one of 4 sessions answers only 500, 403, or never", rule: .nothingTwice,
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
            try trial.strike {
                victims.append(try trial.poison(poison))
                try trial.await("it is noticed") { trial.complaints(poison.complaint) > before }
            }
        }
        try trial.settleDown(sessions: 4)
        trial.afterwards = { status in PoisonBooks(trial, victims, streams: streams).judge(status) }
    }
}

/// What a session can be poisoned with.
private enum Poison: CaseIterable {
    case serverError, credential, silence

    var answer: Answer {
        switch self {
        case .serverError: .usual(500)
        case .credential: .usual(403)
        case .silence: .silent
        }
    }

    /// How the log says that it was noticed.
    var complaint: String {
        switch self {
        case .serverError: "three answers of 500 in a row"
        case .credential: "APNs does not accept the credential"
        case .silence: "a request was never answered"
        }
    }
}

extension Trial {
    /// Waits until so many sessions are open, and what failed before has gone out again.
    fileprivate func settleDown(sessions: Int) throws {
        try self.await("\(sessions) sessions are open") { stage.simulator.totals.openConnections == sessions }
        try self.await("no retry waits") { try status().delayed == 0 }
        // Retries go before what is new.
        try awaitSent(try stage.sent() + 500)
    }

    /// Poisons one of the sessions that have lately been used; returns the number of its connection.
    fileprivate func poison(_ poison: Poison) throws -> Int {
        let used = Set(stage.simulator.ledger.entries.suffix(200).map(\.connection)).sorted()
        let victim = used.randomElement(using: &random)!
        stage.simulator.behave { $0.connections = [.init(victim, poison.answer)] }
        return victim
    }
}

/// What became of the pushes that met a poisoned session.
private struct PoisonBooks {
    let trial: Trial
    /// Connections, by turn.
    let victims: [Int]
    let streams: Int
    private let entries: [LedgerEntry]

    init(_ trial: Trial, _ victims: [Int], streams: Int) {
        (self.trial, self.victims, self.streams) = (trial, victims, streams)
        entries = trial.stage.simulator.ledger.entries
    }

    func judge(_ status: QueueStatus) {
        if status.dead > 0 { trial.fail("\(status.dead) dead letters for the sake of a session") }
        let failures = entries.filter { $0.verdict != .accepted(isAnswered: true) }
        for victim in victims {
            // What was answered well just before may stand between its first errors, and all that is open then is answered alike.
            let count = failures.count { $0.connection == victim }
            if !(1...3 * streams).contains(count) { trial.fail("\(count) failures on a session with \(streams) streams") }
        }
        let counted = failures.count { $0.verdict.isCounted }
        if status.counter(.retried) != counted {
            trial.fail("\(status.counter(.retried)) counted retries, \(counted) would be right")
        }
        let again = trial.complaints("Retrying count (2)")
        if again > 0 { trial.fail("\(again) jobs were counted twice for one session") }
        judgeWays()
    }

    /// A push that failed on one session goes out again over another one.
    private func judgeWays() {
        var last: [String: LedgerEntry] = [:]
        var stubborn = 0
        for entry in entries {
            if let before = last[entry.token], before.connection == entry.connection { stubborn += 1 }
            last[entry.token] = entry
        }
        if stubborn > 0 { trial.fail("\(stubborn) resends went over the session that had failed them") }
    }
}

extension Verdict {
    /// 403 is the credential's fault, whoever says so, and costs a job nothing.
    fileprivate var isCounted: Bool {
        switch self {
        case .silent, .refused(500, _): true
        default: false
        }
    }
}
