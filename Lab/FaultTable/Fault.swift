/// One row of the fault table: a kind of fault, and what must hold after it.
///
/// Whatever the fault: nothing is lost, nothing is delivered that nobody queued, no daemon ends unbidden or outgrows its memory,
/// and no key of a finished job is left behind.
public struct Fault: Sendable {
    /// How often a job may be delivered again.
    public enum Rule: Sendable, Equatable {
        /// Not once: the fault leaves no doubt about what APNs has.
        case nothingTwice
        /// At most what `Trial.allowTwice` was told: what was in flight at the faults.
        case onlyWhatWasInFlight
        /// At most what `Trial.allowTwice` was told: what Redis still had to send although APNs had accepted it. Redis itself forgets in
        /// this fault: jobs that it did not keep are excused (`Trial.excuse`), and those that it kept are not.
        case ofWhatRedisKept
        /// The fault takes any key at any moment. The daemon lives on, and says that jobs are gone.
        case survival
    }

    /// Of the fault, for ever; one that goes leaves a gap. Several rows may try one fault in several ways.
    public let number: Int
    /// For `--fault`.
    public let name: String
    public let title: String
    public let rule: Rule
    /// Whether the test suite runs it as well, with small counts: it takes less than ten seconds then.
    public let isQuick: Bool
    /// On how many stages it is tried at the same time: more than one where most of its time is waiting. Small counts need only one.
    let stages: Int
    let run: @Sendable (Trial) throws -> Void

    init(
        number: Int, name: String, title: String, rule: Rule, isQuick: Bool = false, stages: Int = 1,
        run: @escaping @Sendable (Trial) throws -> Void
    ) {
        (self.number, self.name, self.title, self.rule, self.isQuick) = (number, name, title, rule, isQuick)
        (self.stages, self.run) = (stages, run)
    }

    /// Runs the row on a stage of its own, or on several.
    ///
    /// - Parameter duration: of a row that goes on for as long as it is told.
    public func run(scale: Trial.Scale, seed: UInt64, duration: Duration? = nil) throws -> Trial.Result {
        let stages = scale == .full ? stages : 1
        var result = try together(stages) { place in
            // Far apart, for a trial seeds its proxies with the numbers next to its own.
            let trial = Trial(rule: rule, scale: scale, seed: seed &+ UInt64(place) &* 1_000_003, duration: duration)
            (trial.place, trial.stages) = (place, stages)
            try run(trial)
            return try trial.close()
        }
        if scale == .full && duration == nil && result.times < leastTimes {
            result.failures.append("injected \(result.times) times, \(leastTimes) are wanted")
        }
        return result
    }

    /// How often a full run has to inject it: what is a matter of moments more often.
    public var leastTimes: Int { [1, 2, 20, 21].contains(number) ? 50 : 10 }

    /// Rows of the plan that are not here, and why.
    public static let notRun: [(number: Int, title: String, reason: String)] = [
        (12, "event loop stuck", "the shipped program has no hook for it; to Redis and APNs it is row 4 or 5")
    ]

    /// All rows, in the order of the table.
    public static let all =
        (daemonRows + redisRows + apnsRows + jobRows + fleetRows + sessionRows + streamRows + credentialRows).sorted {
            $0.number < $1.number
        }
}
