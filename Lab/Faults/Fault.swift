public import Harness

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
    public let isQuick: Bool
    /// The number of stages at the same time: more than one if the row mostly waits. Small counts need only one.
    let stages: Int
    /// Why a turn of the dispatcher may be longer than `DaemonFigures.mostTurn`; `nil` if it may not.
    public let longTurn: String?
    let run: @Sendable (Trial) throws -> Void

    init(
        number: Int, name: String, title: String, rule: Rule, isQuick: Bool = false, stages: Int = 1,
        longTurn: String? = nil, run: @escaping @Sendable (Trial) throws -> Void
    ) {
        (self.number, self.name, self.title, self.rule, self.isQuick) = (number, name, title, rule, isQuick)
        (self.stages, self.longTurn, self.run) = (stages, longTurn, run)
    }

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
    public static let all =
        (daemonRows + redisRows + apnsRows + jobRows + fleetRows + sessionRows + streamRows + credentialRows + hostileRows
        + distanceRows + relayRows + upgradeRows + appRows
        + operatorCallRows)
        .sorted { $0.number < $1.number }

    private static let hostileRows = hostileAPNsRows + hostileRedisRows + hostilePlaceRows + hugeJobRows
}
