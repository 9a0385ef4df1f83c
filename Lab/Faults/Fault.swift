public import Harness
internal import Platform

/// One row of the fault table: a fault, and the conditions after it.
///
/// After any fault: no job is lost, no push is delivered without a queued job, no daemon exits by itself or exceeds its memory,
/// and no key of a finished job is left.
public struct Fault: Sendable {
    /// The allowed number of duplicates.
    public enum Rule: Sendable, Equatable {
        /// None: the fault leaves no doubt about the requests that APNs received.
        case nothingTwice
        /// At most `Trial.allowTwice`: the pushes in flight at the faults.
        case onlyWhatWasInFlight
        /// At most `Trial.allowTwice`: the jobs that Redis still has although APNs accepted them. Redis itself forgets jobs in
        /// this fault; only the jobs that it did not keep are excused (`Trial.excuse`).
        case ofWhatRedisKept
        /// The fault removes any key at any time. The daemon continues and logs the loss.
        case survival
    }

    /// The permanent number of the fault; a removed fault leaves a gap. Several rows may share a number.
    public let number: Int
    /// The name for `--fault`.
    public let name: String
    public let title: String
    public let rule: Rule
    /// Whether the test suite also runs the row, with small counts, in less than ten seconds.
    public var isQuick = false
    /// The number of stages at the same time: more than one if the row mostly waits. Small counts need only one.
    var stages = 1
    /// Why a turn of the dispatcher may be longer than `DaemonFigures.mostTurn`; `nil` if it may not.
    public var longTurn: String?
    let run: @Sendable (Trial) throws -> Void

    /// Runs the row on one or several stages.
    ///
    /// - Parameters:
    ///   - older: the path of a daemon of 0.1.0; without it, the row that needs one throws `TrialNotPossibleError`.
    ///   - duration: the length of rows without an end of their own.
    public func run(
        scale: Trial.Scale, seed: UInt64, older: String? = BuiltProducts.olderDaemon, duration: Duration? = nil
    ) throws -> Trial.Result {
        let stages = scale == .full ? stages : 1
        var result = try together(stages) { place in
            // Far apart, because a trial seeds its proxies with the next numbers.
            let seed = seed &+ UInt64(place) &* 1_000_003
            let trial = Trial(rule: rule, scale: scale, seed: seed, older: older, duration: duration)
            (trial.place, trial.stages) = (place, stages)
            try run(trial)
            return try trial.close()
        }
        // The test suite runs a slower build beside other tests: it does not judge turns.
        result.failures += result.figures.excesses(judgesTurns: scale == .full && longTurn == nil)
        if scale == .full && duration == nil && result.times < leastTimes {
            result.failures.append("injected \(result.times) times; expected at least \(leastTimes)")
        }
        return result
    }

    /// The least number of injections of a full run; more for faults that depend on the moment.
    public var leastTimes: Int { [1, 2, 20, 21].contains(number) ? 50 : 10 }

    /// Faults without a row, with the reason.
    public static let notRun: [(number: Int, title: String, reason: String)] = [
        (12, "event loop stuck", "the daemon has no hook for it; Redis and APNs see the same as in rows 4 and 5")
    ]

    /// All rows, in the order of the table.
    public static let all = (rowsOfJobs + campaignRows).sorted { $0.number < $1.number }

    private static let rowsOfJobs =
        daemonRows + redisRows + apnsRows + jobRows + fleetRows + latestRows + sessionRows + streamRows
        + credentialRows + hostileRows + distanceRows + relayRows + upgradeRows + appRows
        + operatorCallRows

    /// Rows again, with a producer that hands over campaigns: ten each second, from a list, a set or a sorted set.
    private static let campaignRows = [
        "kill", "kill-for-good", "redis-kill", "redis-reply-lost", "redis-flush", "redis-power", "redis-scripts", "failover",
        "failover-stale",
    ].compactMap { name in rowsOfJobs.first { $0.name == name }?.withCampaigns }

    private var withCampaigns: Fault {
        Fault(
            number: 85, name: "campaign-\(name)", title: "campaigns: \(title)", rule: rule,
            isQuick: name == "kill", stages: stages, longTurn: longTurn
        ) { [run] trial in
            trial.producesCampaigns = true
            try run(trial)
        }
    }

    private static let hostileRows = hostileAPNsRows + hostileRedisRows + hostilePlaceRows + hugeJobRows
}

/// The load and the speed of the daemons in a fault: the highest figure of all daemons.
public struct DaemonFigures: Sendable, Equatable {
    /// The share of one processor while a daemon had nothing to do: in the fault if no work is possible in it, and in every row
    /// at the end, when all jobs are settled.
    public var idleShare: Double?
    /// The longest turn of the dispatcher: for this long it handled no signal, response or reply.
    public var longestTurn: Duration?
    /// The time from SIGTERM to the exit.
    public var exitTime: Duration?

    static let mostIdleShare = 0.05
    static let mostTurn = Duration.milliseconds(250)
    /// The longest time from the end of `drain_timeout` to the exit.
    static let mostBeyondDrain = Duration.seconds(5)

    /// The bounds that these figures exceed; the bound of `exitTime` depends on `drain_timeout`.
    ///
    /// - Parameter judgesTurns: whether no reason for a long turn is known.
    func excesses(judgesTurns: Bool) -> [String] {
        var excesses: [String] = []
        if let share = idleShare, share > Self.mostIdleShare {
            excesses.append("gaplessd used \(Int(share * 100)) % of a processor while it had nothing to do")
        }
        if judgesTurns, let turn = longestTurn, turn > Self.mostTurn {
            excesses.append("a turn of the dispatcher took \(turn); at most \(Self.mostTurn) are allowed")
        }
        return excesses
    }

    mutating func add(idleShare share: Double) { idleShare = max(idleShare ?? 0, share) }
    mutating func add(turn: Duration) { longestTurn = max(longestTurn ?? .zero, turn) }
    mutating func add(exitTime time: Duration) { exitTime = max(exitTime ?? .zero, time) }

    mutating func add(_ other: DaemonFigures) {
        if let share = other.idleShare { add(idleShare: share) }
        if let turn = other.longestTurn { add(turn: turn) }
        if let time = other.exitTime { add(exitTime: time) }
    }
}

/// Runs trials of a row at the same time, each on its own thread and stage, and returns the sum of their results.
///
/// A failed trial does not stop the others.
func together(_ count: Int, _ trial: @escaping @Sendable (_ place: Int) throws -> Trial.Result) throws -> Trial.Result {
    if count == 1 { return try trial(0) }
    let ends = Locked<[Int: Result<Trial.Result, any Error>]>([:])
    try awaitThreads(count) { place in
        let end = Result { try trial(place) }
        ends.withLock { $0[place] = end }
    }
    let results = try ends.withLock { $0 }.sorted { $0.key < $1.key }.map { try $0.value.get() }
    return results.dropFirst().reduce(results[0], +)
}

/// Runs the body on several threads. If a thread cannot start, the others run to their end.
private func awaitThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) throws {
    if count == 0 { return }
    let thread = try OwnedThread(name: "trial \(count - 1)", stackBytes: 8 << 20) { body(count - 1) }
    let others = Result { try awaitThreads(count - 1, body) }
    thread.join()
    try others.get()
}
