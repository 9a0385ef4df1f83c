import Clocks
import Threads

/// What the daemon knows of itself at one moment.
struct ProcessSnapshot: Sendable, Equatable {
    struct App: Sendable, Equatable {
        /// `nil` is the app of the top level.
        var name: String?
        var sessions = 0
        /// Streams that the open sessions can have open in all.
        var capacity = 0
        /// Jobs that this process holds for the app.
        var held = 0
        /// Pushes on the wire.
        var streams = 0
        var hold: HoldReason?
        /// Unix seconds.
        var certificateExpires: Int64?
        var tokenAge: Duration?

        /// In labels and sentences, as `check` says it.
        var label: String { name ?? "(top level)" }
    }

    struct List: Sendable, Equatable {
        var name: String
        var isConnected = false
        /// Whether this worker's lease may have run out.
        var isInDoubt = false
        /// Since Redis last confirmed that this worker lives; `nil` before the first time.
        var sinceContact: Duration?
    }

    var isLeaving = false
    /// Claimed and not settled.
    var inFlight = 0
    /// Since this process started.
    var counters = Counters()
    var apps: [App]
    var lists: [List]
}

/// Where the dispatcher leaves what it knows of itself, for whoever looks.
final class ProcessBoard: Sendable {
    struct Notice: Sendable {
        var snapshot: ProcessSnapshot
        var at: Instant
    }

    private let notice = Locked<Notice?>(nil)

    func publish(_ snapshot: ProcessSnapshot, at now: Instant) {
        notice.withLock { $0 = Notice(snapshot: snapshot, at: now) }
    }

    /// `nil` until the dispatcher has turned once.
    var latest: Notice? { notice.withLock { $0 } }
}

/// When the dispatcher tells of itself: at once, but not more often than ten times a second, and not less than once.
struct NoticeSchedule: Equatable {
    static let least = Duration.milliseconds(100)
    static let most = Duration.seconds(1)

    private var last: Instant?
    private var hasMore = false

    /// The dispatcher has turned. Whether it is to tell.
    mutating func turned(now: Instant) -> Bool {
        if let last, now - last < Self.least {
            hasMore = true
            return false
        }
        last = now
        hasMore = false
        return true
    }

    /// When it wants another turn.
    var deadline: Instant? { last.map { $0 + (hasMore ? Self.least : Self.most) } }
}

/// Whether this process lives, and whether it can do its work: `/healthz` and `/readyz`.
enum Readiness {
    /// A dispatcher that has told nothing for so long is stuck: it turns at least once a second.
    static let patience = Duration.seconds(10)

    /// - Parameter started: since when there is to be a first notice.
    static func isAlive(_ notice: ProcessBoard.Notice?, started: Instant, now: Instant) -> Bool {
        now - (notice?.at ?? started) < patience
    }

    /// Why pushes do not go out, one sentence each; empty where all is well.
    static func faults(_ notice: ProcessBoard.Notice?, now: Instant) -> [String] {
        guard let notice else { return ["starting"] }
        let snapshot = notice.snapshot
        var faults: [String] = []
        if now - notice.at >= patience { faults.append("the dispatcher has not turned for \((now - notice.at).roundedSeconds) s") }
        if snapshot.isLeaving { faults.append("stopping: nothing new is claimed") }
        for list in snapshot.lists {
            if !list.isConnected {
                faults.append("list \(list.name.printable): no connection to Redis")
            } else if list.isInDoubt {
                faults.append("list \(list.name.printable): no word from Redis for most of the lease")
            }
        }
        for app in snapshot.apps {
            if let hold = app.hold {
                faults.append("app \(app.label.printable) is held: \(hold.sentence.printable)")
            } else if app.capacity == 0 {
                faults.append("app \(app.label.printable): no open session to APNs")
            }
        }
        return faults
    }
}
