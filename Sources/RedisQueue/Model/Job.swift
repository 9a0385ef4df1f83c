/// A job that this worker holds. Redis keeps it in a chunk of the worker until it is settled.
public struct ClaimedJob: Sendable, Equatable {
    public var id: ClaimID
    /// The list element, byte for byte, or the beginning of a job that is too large.
    public var bytes: [UInt8]
    /// Its position in the flow of claims of all workers; 0 if it is unknown. See `Scope.rank`.
    public var rank: UInt64
    /// 0 if all bytes are here. Like `marks`, in few fields: a struct of more fields is not copied in registers.
    private var size: UInt32
    private var marks: Marks

    private struct Marks: OptionSet, Equatable {
        let rawValue: UInt8

        static let alone = Marks(rawValue: 1)
        static let claimed = Marks(rawValue: 2)
        static let slot = Marks(rawValue: 4)
    }

    /// A larger job is not transmitted.
    public static let mostBytes = 24 << 20
    /// Bytes that Redis sends of a larger job.
    static let headBytes = 1024

    public init(
        id: ClaimID, bytes: [UInt8], fullSize: Int? = nil, isAlone: Bool = false, wasClaimed: Bool = false, rank: UInt64 = 0,
        isFromSlot: Bool = false
    ) {
        self.id = id
        self.bytes = bytes
        self.rank = rank
        size = fullSize.map { UInt32(clamping: $0) } ?? 0
        marks = []
        if isAlone { marks.insert(.alone) }
        if wasClaimed { marks.insert(.claimed) }
        if isFromSlot { marks.insert(.slot) }
    }

    /// The number of bytes of a job of more than `mostBytes`, of which Redis sends only the beginning.
    public var fullSize: Int? { size == 0 ? nil : Int(size) }
    /// Whether it was in flight at three crashes: its worker claims nothing else until it is settled.
    public internal(set) var isAlone: Bool {
        get { marks.contains(.alone) }
        set { if newValue { marks.insert(.alone) } else { marks.remove(.alone) } }
    }
    /// Whether it has been claimed before: it comes from a side list or from a dead worker, and is older than the jobs of its app
    /// that are set aside now.
    public var wasClaimed: Bool { marks.contains(.claimed) }
    /// Whether it comes from its slot: it is the push of its scope that is on its way.
    public var isFromSlot: Bool { marks.contains(.slot) }
}

/// The number of one claimed job of one worker. It rises with every job that the worker claims.
///
/// It consists of the number of the chunk that has the job, and the position in it.
public struct ClaimID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// A chunk has fewer positions.
    private static let positions: UInt64 = 256

    public let number: UInt64

    public init(_ number: UInt64) { self.number = number }

    init(chunk: UInt64, place: Int) { number = chunk * ClaimID.positions + UInt64(place) }

    var chunk: UInt64 { number / ClaimID.positions }
    var place: Int { Int(number % ClaimID.positions) }

    public var description: String { String(number) }

    public static func < (left: ClaimID, right: ClaimID) -> Bool { left.number < right.number }
}

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
        /// It waits in the slot of its scope: see `SlotEntry`.
        indirect case slot(SlotEntry)
    }

    public var id: ClaimID
    public var effect: Effect
    /// The app in whose side list a released, replaced or split job waits; `nil` for the list itself.
    public var aside: String?
    /// The scope of a job from a slot that ends: its next job may be sent.
    public var scope: Scope?
    /// A record for the feedback list.
    public var feedback: [UInt8]?
    /// Fields and values for the results stream.
    public var result: Arguments?
    /// Uncounted resends of this job: `resent`.
    public var resends: Int
    /// Its meaning for a campaign; `nil` for a job of none.
    public var campaign: CampaignOutcome?

    public init(
        id: ClaimID, effect: Effect, aside: String? = nil, scope: Scope? = nil, feedback: [UInt8]? = nil,
        result: Arguments? = nil, resends: Int = 0, campaign: CampaignOutcome? = nil
    ) {
        self.id = id
        self.effect = effect
        self.aside = aside
        self.scope = scope
        self.feedback = feedback
        self.result = result
        self.resends = resends
        self.campaign = campaign
    }
}

/// The parts of a job: ranges of its bytes, each between the same two texts. Redis makes the parts of the job that it keeps, so
/// that a job of megabytes does not cross the link again. Parts of other bytes are given whole.
public struct JobParts: Sendable, Equatable {
    public var prefix: [UInt8]
    /// In the order in which the parts are claimed. None is empty.
    public var ranges: [Range<Int>]
    public var suffix: [UInt8]
    /// The parts, if they are not ranges of the job.
    public var texts: [[UInt8]] = []

    public init(prefix: [UInt8], ranges: [Range<Int>], suffix: [UInt8]) {
        (self.prefix, self.ranges, self.suffix) = (prefix, ranges, suffix)
    }

    public init(texts: [[UInt8]]) {
        self.init(prefix: [], ranges: [], suffix: [])
        self.texts = texts
    }

    /// Bytes of all parts together.
    public var byteCount: Int {
        ranges.reduce(0) { $0 + prefix.count + $1.count + suffix.count } + texts.reduce(0) { $0 + $1.count }
    }

    /// Returns the parts of `job`.
    public func parts(of job: [UInt8]) -> [[UInt8]] {
        ranges.map { prefix + job[$0.clamped(to: job.indices)] + suffix } + texts
    }
}

/// The entry of a chunk in Redis: see `Keys.chunks`.
enum ChunkEntry {
    static let mostJobs = 250
    static let mark = UInt8(ascii: "1")
    static let settled = UInt8(ascii: "0")
    /// The decimal digits of a rank as letters: a 1 would count as a job in flight.
    static let digits = UInt8(ascii: "a")...UInt8(ascii: "j")

    /// Returns the end of an entry: the rank before the first job of the chunk.
    static func rank(_ base: UInt64) -> [UInt8] { String(base).utf8.map { $0 - UInt8(ascii: "0") + digits.lowerBound } }
}
