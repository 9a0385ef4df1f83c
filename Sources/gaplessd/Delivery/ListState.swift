import RedisQueue

/// One list: whether Redis serves it, and when it may be claimed from.
struct ListState {
    /// Jobs per claim while no app takes one: of one script, and so the price of a search through many.
    static let lookAhead = 250

    let name: String
    private(set) var isConnected = false
    /// Whether this worker's lease may have expired: then nothing of this list may be sent.
    private(set) var isInDoubt = false
    private(set) var isStopped = false
    /// The pauses in force.
    private(set) var pauses: [PauseNote] = []
    /// Whether operators have paused the list, or all of its apps.
    private(set) var isPaused = false
    /// The apps whose side lists have jobs, as the queue last reported.
    var asides: Set<String> = []
    /// The last claim found only jobs that were set aside.
    private var looksAhead = false

    init(name: String) { self.name = name }

    mutating func connected() { (isConnected, isInDoubt) = (true, false) }
    mutating func disconnected() { isConnected = false }
    mutating func leaseInDoubt() { isInDoubt = true }
    mutating func stopped() { isStopped = true }

    var mayClaim: Bool { !isInDoubt && !isPaused }

    /// - Parameter isWhole: whether the pauses stop every app.
    mutating func paused(_ pauses: [PauseNote], isWhole: Bool) {
        (self.pauses, isPaused) = (pauses, isWhole)
    }

    /// - Parameters:
    ///   - placed: whether an app took a job of the claim.
    ///   - givenBack: whether one was set aside.
    mutating func claimEnded(placed: Bool, givenBack: Bool) {
        if placed || givenBack { looksAhead = givenBack && !placed }
    }

    /// Returns the number of jobs to claim for this many places. Behind jobs that are set aside there may be jobs for few places.
    func claims(for places: Int) -> Int { looksAhead && places > 0 ? max(places, Self.lookAhead) : places }
}
