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
