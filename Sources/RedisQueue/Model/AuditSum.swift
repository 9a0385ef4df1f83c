/// The fields of `stats`. At any moment, over all workers of a list,
///
///     claimed = sent + retried + postponed + dead + expired + superseded + released + recovered + jobs in flight
///
/// because each claimed job is counted once when it is no longer in flight, in the step that settles it.
/// A job in `delayed` was counted as `retried` or `postponed`, a job in `recovered` as `recovered`; both are claimed again. A job
/// in a slot was counted as `released`; if a newer one takes its place there, it counts as claimed and superseded.
/// `redis_delivery: at_most_once` keeps no jobs in flight and counts `claimed` when it settles.
public enum Counter: String, Sendable, CaseIterable {
    case claimed, sent, retried, postponed, dead, expired, superseded, released, recovered
    /// Resends that used up no retry.
    case resent
    /// Workers that were considered dead and came back.
    case fenced
    /// Upper bound of the pushes that APNs may have had twice. All jobs of a dead worker are included, because the worker's
    /// death leaves unknown which of them were on the wire.
    case maybeDuplicate = "maybe_duplicate"
    /// Dead letters and feedback entries dropped for `redis_dead_letter_max` and `redis_feedback_max`.
    case trimmed

    /// The counters of settled jobs: the terms of the sum above, without the jobs in flight.
    package static let settled: [Counter] = [
        .sent, .retried, .postponed, .dead, .expired, .superseded, .released, .recovered,
    ]

    /// Returns the claimed jobs that no other counter explains, which `gaplessd audit` reports: 0 when the sum above agrees.
    static func unexplained(_ counters: [Counter: Int64], inFlight: Int) -> Int64 {
        // Wrapping, because a counter in Redis may have any value.
        settled.reduce(counters[.claimed, default: 0] &- Int64(inFlight)) { $0 &- counters[$1, default: 0] }
    }

    /// The help of its metric.
    package var help: String {
        switch self {
        case .claimed: "Jobs claimed from the list; a job that returns is counted again."
        case .sent: "Pushes that APNs accepted."
        case .retried: "Counted retries."
        case .postponed: "Jobs delayed without a counted retry: not_before, a token after a 429, or ten refusals in a row."
        case .dead: "Jobs that became dead letters, except expired ones."
        case .expired: "Jobs that became dead letters because their deadline had passed."
        case .superseded: "Jobs that were not sent because a newer one of their scope (replaces) took their place."
        case .released: "Jobs returned to the list, unchanged or split by device, or put into the slot of their scope."
        case .recovered: "Jobs taken over from dead workers."
        case .resent: "Uncounted resends."
        case .fenced: "Workers that were declared dead and came back."
        case .maybeDuplicate: "Pushes that APNs may have received twice."
        case .trimmed: "Dead letters and feedback entries dropped because of redis_dead_letter_max and redis_feedback_max."
        }
    }
}
