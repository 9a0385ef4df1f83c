import Platform
import PushPool

/// The state of the daemon at one moment.
struct ProcessSnapshot: Sendable, Equatable {
    struct App: Sendable, Equatable {
        /// `nil` for the app of the top level.
        var name: String?
        var sessions = 0
        /// Streams that all open sessions together allow.
        var capacity = 0
        /// Jobs that this process holds for the app.
        var held = 0
        /// Pushes on the wire.
        var streams = 0
        var hold: HoldReason?
        /// Whether an operator has paused the app, or a whole list.
        var isPaused = false
        var figures = PoolFigures()
        var bottleneck = Bottleneck.none
        var responses = ResponseFigures()
        /// Unix seconds.
        var certificateExpires: Int64?
        /// As in `DispatchPlan.App`.
        var fingerprint = ""
        /// The last acceptance; see `AppMachine`.
        var acceptedAt: Instant?
        var tokenAge: Duration?

        func isKnown(now: Instant) -> Bool { acceptedAt.map { now - $0 < CircuitBreaker.proofLifetime } ?? false }

        /// The name in labels and sentences, as in the output of `check`.
        var label: String { name ?? "(top level)" }
    }

    struct List: Sendable, Equatable {
        var name: String
        var isConnected = false
        /// Whether this worker's lease may have expired.
        var isInDoubt = false
        /// Time since Redis last confirmed this worker's lease; `nil` before the first time.
        var sinceContact: Duration?
        /// The time to a reply of Redis.
        var latency = Duration.zero
        /// Whether the list may have jobs that wait for a claim.
        var hasBacklog = false
        /// The pauses in force.
        var pauses: [PauseNote] = []
    }

    var isLeaving = false
    /// Jobs claimed and not settled.
    var inFlight = 0
    /// Since this process started.
    var counters = Counters()
    /// The longest turn of the dispatcher since this process started.
    var longestTurn = Duration.zero
    var apps: [App]
    var lists: [List]
}
