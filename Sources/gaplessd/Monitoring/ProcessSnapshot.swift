import Glibc
import Platform
import PushPool
import RedisQueue

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
        /// Whether it has no sessions because it has no jobs, or opens them for its first ones.
        var isIdle = false
        /// Whether the settings no longer have it.
        var isRemoved = false
        /// Whether a list has a side list of the app.
        var hasAside = false

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

/// The last snapshot of the dispatcher, for the threads of the metrics endpoint.
final class ProcessBoard: Sendable {
    struct Notice: Sendable {
        var snapshot: ProcessSnapshot
        var at: Instant
    }

    private let notice = Locked<Notice?>(nil)

    func publish(_ snapshot: ProcessSnapshot, at now: Instant) {
        notice.withLock { $0 = Notice(snapshot: snapshot, at: now) }
    }

    /// `nil` before the dispatcher's first turn.
    var latest: Notice? { notice.withLock { $0 } }
}

/// The kernel's figures of this process.
struct SystemFacts: Sendable, Equatable {
    /// Unix seconds.
    var started: Double
    var residentBytes: Int
    var processorSeconds: Double
    /// Log lines that could not be written.
    var droppedLines = 0

    static func now(started: WallClock, _ log: Log) -> SystemFacts {
        var usage = rusage()
        unsafe getrusage(CInt(RUSAGE_SELF.rawValue), &usage)
        let seconds = { (time: timeval) in Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return SystemFacts(
            started: started.seconds, residentBytes: residentBytes(),
            processorSeconds: seconds(usage.ru_utime) + seconds(usage.ru_stime), droppedLines: log.droppedLines)
    }

    /// The second field of /proc/self/statm, in pages (proc(5)); 0 without /proc.
    private static func residentBytes() -> Int {
        guard let bytes = try? FileBytes.read("/proc/self/statm", atMost: 4096) else { return 0 }
        let fields = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(CInt(_SC_PAGESIZE))) : 0
    }
}

/// The daemon's counters since its start, for SIGUSR1 and metrics. The counters that survive restarts are in Redis.
struct Counters: Sendable, Equatable, CustomStringConvertible {
    var claimed = 0
    var sent = 0
    var retried = 0
    var resent = 0
    var dead = 0
    var expired = 0
    var released = 0
    var postponed = 0

    /// In the order of the log and of the metrics.
    var all: [(counter: Counter, count: Int)] {
        [
            (.claimed, claimed), (.sent, sent), (.retried, retried), (.resent, resent), (.dead, dead), (.expired, expired),
            (.released, released), (.postponed, postponed),
        ]
    }

    var description: String { all.map { "\($0.counter.rawValue) \($0.count)" }.joined(separator: ", ") }
}
