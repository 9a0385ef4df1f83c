/// The fields of `stats`. At any moment, over all workers of a list,
///
///     claimed = sent + retried + postponed + dead + expired + released + recovered + jobs in flight
///
/// for each claimed job is counted once when it leaves its worker's in-flight hash, in the step that removes it.
/// A job in `delayed` was counted as `retried` or `postponed`, one in `recovered` as `recovered`; either is claimed anew.
/// `redis_delivery: at_most_once` keeps no hash and counts `claimed` when it settles.
public enum Counter: String, Sendable, CaseIterable {
    case claimed, sent, retried, postponed, dead, expired, released, recovered
    /// Resends that used up no retry.
    case resent
    /// Workers that were taken for dead and came back.
    case fenced
    /// Pushes that APNs may have had twice, never too few: all that a dead worker held are among them, for nobody knows which
    /// of them were on the wire.
    case maybeDuplicate = "maybe_duplicate"
    /// Dead letters dropped for `redis_dead_letter_max`.
    case trimmed
}
