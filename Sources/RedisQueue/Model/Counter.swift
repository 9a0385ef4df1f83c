/// The fields of `stats`. At any moment, over all workers of a list,
///
///     claimed = sent + retried + postponed + dead + expired + released + recovered + jobs in flight
///
/// because each claimed job is counted once when it is no longer in flight, in the step that settles it.
/// A job in `delayed` was counted as `retried` or `postponed`, a job in `recovered` as `recovered`; both are claimed again.
/// `redis_delivery: at_most_once` keeps no jobs in flight and counts `claimed` when it settles.
public enum Counter: String, Sendable, CaseIterable {
    case claimed, sent, retried, postponed, dead, expired, released, recovered
    /// Resends that used up no retry.
    case resent
    /// Workers that were considered dead and came back.
    case fenced
    /// Upper bound of the pushes that APNs may have had twice. All jobs of a dead worker are included, because the worker's
    /// death leaves unknown which of them were on the wire.
    case maybeDuplicate = "maybe_duplicate"
    /// Dead letters and feedback entries dropped for `redis_dead_letter_max` and `redis_feedback_max`.
    case trimmed
}
