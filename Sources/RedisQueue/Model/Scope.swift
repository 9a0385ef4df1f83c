/// The scope of a job with `replaces`: at most one push of it is on its way, and at most one job waits.
///
/// A broadcast without `replaces` has a scope of its channel while its updates have a pace: then all its jobs wait, in order.
public struct Scope: Sendable, Equatable {
    /// The part of `aps.event` that the order of a scope depends on. The raw values are in the records of Redis.
    public enum Event: String, Sendable {
        case start = "s"
        case update = "u"
        case end = "e"
    }

    /// The app, empty for the top level.
    public var app: String
    /// The device token or channel of the app: what APNs paces. Its first character is `c` for a channel.
    public var lane: String
    /// Without blanks; `nil` for a broadcast without `replaces`.
    public var name: String?
    /// The position of the job in the flow of claims of all workers: a later job of the list has a higher one.
    public var rank: UInt64
    public var event: Event

    public init(app: String, lane: String, name: String?, rank: UInt64, event: Event) {
        (self.app, self.lane, self.name, self.rank, self.event) = (app, lane, name, rank, event)
    }

    /// The name in the field of a scope of broadcasts without `replaces`.
    static let ordered = "-"

    /// Its field in the hash `slots`.
    var field: String { "\(lane) \(name.map { "=\($0)" } ?? Scope.ordered)" }
}

/// A claimed job on its way into the slot of its scope. An older one that waits there ends as superseded, or this one if a newer
/// one waits, or was sent.
public struct SlotEntry: Sendable, Equatable {
    /// The counter of the step, unless the job is superseded.
    public enum Count: String, Sendable {
        case released = "h"
        case retried = "r"
        case postponed = "p"
    }

    public var scope: Scope
    /// The job, with its rank in it (`_gapless_rank`).
    public var job: [UInt8]
    /// It is not sent before; `nil` is now.
    public var due: Settlement.Due?
    /// A 429 of the lane: the pause that APNs asks for, or zero.
    public var throttle: Duration?
    /// Fields and values for the results stream if the job ends as superseded.
    public var superseded: Arguments
    public var count: Count

    public init(
        _ scope: Scope, job: [UInt8], due: Settlement.Due? = nil, throttle: Duration? = nil, superseded: Arguments = [],
        count: Count = .released
    ) {
        (self.scope, self.job, self.due, self.throttle) = (scope, job, due, throttle)
        (self.superseded, self.count) = (superseded, count)
    }
}

/// The mark that keeps the rank of a job that leaves its chunk.
public enum RankMark {
    public static let key = "_gapless_rank"
    /// A job without this text has no scope. A key with escapes is not found: such a job gets a new rank when it is claimed
    /// again.
    static let replaces = Array("\"replaces\"".utf8)
    private static let name = Array("\"_gapless_rank\"".utf8)

    /// Whether the rank of the job has to be kept.
    public static func isNeeded(_ job: [UInt8]) -> Bool { contains(replaces, in: job) }

    /// Returns the job with its rank, behind the first brace; unchanged if it has one, or is not an object.
    public static func adding(_ rank: UInt64, to job: [UInt8]) -> [UInt8] {
        guard let brace = job.firstIndex(where: { !isBlank($0) }), job[brace] == UInt8(ascii: "{"), !contains(name, in: job)
        else { return job }
        return Array(job[...brace]) + Array("\"\(key)\":\(rank),".utf8) + job[(brace + 1)...]
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

    private static func contains(_ text: [UInt8], in job: [UInt8]) -> Bool {
        let job = job.span
        guard job.count >= text.count, let first = text.first else { return false }
        for at in 0...(job.count - text.count) where job[at] == first {
            if text.indices.allSatisfy({ job[at + $0] == text[$0] }) { return true }
        }
        return false
    }
}
