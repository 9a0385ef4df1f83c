import RedisQueue
import SystemTime

/// One list: whether Redis serves it, and when it may be claimed from.
struct ListState {
    let name: String
    private(set) var isConnected = false
    /// Whether this worker's lease may have expired: then nothing of this list may be sent.
    private(set) var isInDoubt = false
    private(set) var isStopped = false
    /// No claim before this time, because the last one found jobs of apps that cannot send.
    private(set) var pausedUntil: Instant?
    /// The pauses in force.
    private(set) var pauses: [PauseNote] = []
    /// Whether operators have paused the list, or all of its apps.
    private(set) var isPaused = false
    private var pause = ClaimPause()

    init(name: String) { self.name = name }

    mutating func connected() { (isConnected, isInDoubt) = (true, false) }
    mutating func disconnected() { isConnected = false }
    mutating func leaseInDoubt() { isInDoubt = true }
    mutating func stopped() { isStopped = true }

    var mayClaim: Bool { pausedUntil == nil && !isInDoubt && !isPaused }

    /// - Parameter isWhole: whether the pauses stop every app.
    mutating func paused(_ pauses: [PauseNote], isWhole: Bool) {
        (self.pauses, isPaused) = (pauses, isWhole)
        pausedUntil = nil
    }

    /// Returns the number of jobs to claim for this many places.
    func places(_ places: Int) -> Int { mayClaim ? pause.places(places) : 0 }

    /// - Parameters:
    ///   - placed: jobs of the claim that were not given back.
    mutating func claimEnded(placed: Int, givenBack: [ClaimedJob], now: Instant) {
        pausedUntil = pause.claimed(placed: placed, givenBack: givenBack, now: now).map { now + $0 }
    }

    /// An app that was held or limited may send again.
    mutating func resume() { pausedUntil = nil }

    mutating func tick(now: Instant) { if let pausedUntil, pausedUntil <= now { self.pausedUntil = nil } }
}
