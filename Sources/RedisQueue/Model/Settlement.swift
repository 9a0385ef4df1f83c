/// The end of one job. In Redis the effect happens only if this worker still holds the job, in one step with its removal.
/// A settlement whose reply was lost is therefore sent again.
public struct Settlement: Sendable, Equatable {
    public enum Due: Sendable, Equatable {
        /// Counted by Redis' clock from the settlement.
        case after(Duration)
        /// Milliseconds since 1970 (`not_before`).
        case at(milliseconds: Int64)
    }

    public enum Effect: Sendable, Equatable {
        /// APNs accepted it. Counts as `sent`.
        case ack
        /// It waits in `delayed`, as `job`. Counts as `retried` or, for `not_before`, as `postponed`.
        case delay(job: [UInt8], Due, isRetry: Bool)
        /// It becomes the dead letter `record`. Counts as `expired` or else as `dead`.
        ///
        /// With `storingJobUnder`, Redis moves the bytes of the job into the hash of large jobs, under this field.
        case deadLetter(record: [UInt8], isExpired: Bool, storingJobUnder: String? = nil)
        /// It returns to its list unchanged: to the head (in claim order), or to the tail where others should pass it.
        /// Counts as `released`.
        case release(toTail: Bool)
        /// It is replaced by this job, at the head or at the tail of the list, as `release` does it. Counts as `released`.
        case replace(with: [UInt8], toTail: Bool)
        /// It is replaced by its parts, at the head of the list in their order. Counts as `released`: the parts are claimed.
        case split(into: JobParts)
    }

    public var id: ClaimID
    public var effect: Effect
    /// The app in whose side list a released, replaced or split job waits; `nil` for the list itself.
    public var aside: String?
    /// A record for the feedback list.
    public var feedback: [UInt8]?
    /// Fields and values for the results stream.
    public var result: [[UInt8]]?
    /// Uncounted resends of this job: `resent`.
    public var resends: Int

    public init(
        id: ClaimID, effect: Effect, aside: String? = nil, feedback: [UInt8]? = nil, result: [[UInt8]]? = nil, resends: Int = 0
    ) {
        self.id = id
        self.effect = effect
        self.aside = aside
        self.feedback = feedback
        self.result = result
        self.resends = resends
    }
}
