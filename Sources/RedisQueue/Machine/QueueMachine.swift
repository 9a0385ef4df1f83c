import Clocks

/// What the queue says next, and what the answers mean. Knows no socket, no clock and no C.
///
/// Facts are told by its methods, and each turn ends with `advance`, which does all that is due. Effects gather in
/// `effects` until the shell takes them.
struct QueueMachine {
    enum Phase: Equatable {
        /// No connection; the next dial has its time.
        case resting
        case dialing
        case registering
        /// Comparing what Redis holds for us with what we hold.
        case reconciling
        case serving
        /// Nothing is left to do but to be struck off the list of workers.
        case leaving
        case stopped
    }

    enum Effect: Equatable {
        case dial
        case hangUp
        case call(Call)
        /// The blocking command, on the second connection, and the claim that rides behind it.
        case wait(Call?)
        /// The list is at another node of the cluster: what its error said.
        case follow(String)
        /// The nodes of the cluster, as it told them.
        case learn([RedisReply])
        case report(QueueEvent)
    }

    /// What waits in the lists of jobs from dead workers; the scripts say it by these numbers.
    enum Recovered: Int64 {
        case none = 0
        case some = 1
        /// Only jobs that must be alone in their worker.
        case lonely = 2
    }

    /// A job that has been in three crashes is pushed alone. Under load a worker never holds nothing, so it has to stop
    /// claiming for that; but not for ever, when what it holds does not get settled.
    enum Isolation: Equatable {
        case unneeded
        case awaited(until: Instant)
        case waived(until: Instant)
    }

    /// Most jobs of one claim, and most of those that have been in two crashes.
    static let mostClaimed = 250
    static let mostTwiceCrashed = 32
    /// So many dead letters, and as many again, are worth a word.
    static let manyDeadLetters = 10_000
    /// So many nodes may send us on before we pause.
    private static let mostRedirects = 3
    /// Ids kept free for the suspects of one dead worker: it holds at most one, and those it had taken over.
    static let mostSuspects = 65_536

    let mode: QueueSettings.DeliveryMode
    var effects: [Effect] = []
    private(set) var phase = Phase.resting
    /// Of the connection; each call carries it.
    private(set) var number: Int64 = 0

    // What is held.
    var held = JobWindow()
    var settlements = Settlements()
    var nextID = ClaimID(1)

    // What is under way.
    var claimOut = 0
    /// A claim was answered, and the owner has not spoken since.
    var isClaimFresh = false
    var isBeatOut = false
    var isReapOut = false
    var isPromoteOut = false
    var isWaitOut = false
    var isLookOut = false
    /// A claim rides behind the wait that is out, or was.
    var isRideOut = false
    /// Looks in a row that found more jobs under this worker's name than it knows.
    var missedRides = 0
    var countsHeld = false
    /// Fields of the in-flight hash that are none of ours.
    var foreignFields = 0
    var answersMissing = 0
    var toReap: [LeaseMachine.Dead] = []

    // What is wanted.
    var places = 0
    var offeredAt: Instant?
    var claimsAtOnce = false
    var isFlushWanted = false
    private(set) var isStopping = false

    // What is known of the other side.
    var waiting = Waiting()
    var lease: LeaseMachine
    var counter: Int64 = 0
    var nextBeat: Instant
    /// Unless Redis has said something until then, it is asked.
    var nextLook: Instant
    var promoteAt: Instant?
    var recovered = Recovered.none
    var solitude = Isolation.unneeded
    var popsOne = false
    var deadLettersToSay = QueueMachine.manyDeadLetters
    /// Dead letters that the list had as this worker was registered.
    var lettersSeen = 0
    /// The birth mark of the data set in which all that we hold stands, and of the one that is being reconciled.
    var born: String?
    var bornSeen: String?
    var isRegistered = false
    var isDoubted = false
    var warnings: [String] = []
    var hasWarned = false
    var isCluster = false
    /// What this server lacks and was said to lack.
    var lacks: Set<String> = []
    private var redirects = 0

    private var redial: Redial
    private var redialAt: Instant
    private var lastSaid: QueueEvent?

    init(settings: QueueSettings, worker: String, seed: UInt64, now: Instant) {
        mode = settings.mode
        lease = LeaseMachine(lease: settings.lease, own: worker)
        redial = Redial(seed: seed)
        nextBeat = now
        nextLook = now
        redialAt = now
    }

    // MARK: Connection

    /// Both connections are open and the server has let us in.
    mutating func connected() {
        number += 1
        counter += 1
        phase = .registering
        call(.register(.init(counter: counter, confirmed: settlements.confirmed, isExpected: isRegistered)))
    }

    /// Registers again: somebody has used a higher number for this worker's name.
    mutating func numberTaken(_ taken: Int64) {
        number = max(number, taken)
        connected()
    }

    /// No connection, or none that serves. State is kept, and after a pause the dial begins again.
    mutating func lost(_ reason: String, now: Instant) {
        if phase == .resting || phase == .stopped { return }
        rest(until: now + redial.nextPause())
        say(.disconnected(reason))
    }

    /// Another node of the cluster has the list. It is dialled at once, unless the nodes keep pointing at each other.
    mutating func moved(_ text: String, now: Instant) {
        isCluster = true
        redirects += 1
        let isEndless = redirects > QueueMachine.mostRedirects
        effects.append(.follow(text))
        rest(until: isEndless ? now + redial.nextPause() : now)
        if isEndless { say(.disconnected("the nodes of the cluster do not agree on who has the list (\(text))")) }
    }

    /// The server answers, and refuses what only its operator can allow.
    mutating func refused(_ reason: String, now: Instant) {
        rest(until: now + .seconds(5))
        say(.refused(reason))
    }

    /// Redis takes us for dead: others may have our jobs already.
    mutating func fenced(now: Instant) {
        doubt()
        lost("this worker was taken for dead and registers anew", now: now)
    }

    private mutating func rest(until instant: Instant) {
        if phase == .stopped { return }
        if phase != .resting { effects.append(.hangUp) }
        phase = .resting
        redialAt = instant
        settlements.connectionLost()
        (claimOut, answersMissing) = (0, 0)
        (isBeatOut, isReapOut, isPromoteOut, isWaitOut, isLookOut) = (false, false, false, false, false)
        (isRideOut, missedRides) = (false, 0)
        toReap = []
        waiting.reset()
    }

    /// One report for each state, not for each attempt.
    private mutating func say(_ event: QueueEvent) {
        if lastSaid == event { return }
        lastSaid = event
        effects.append(.report(event))
    }

    /// Everything agrees: from here on jobs come in.
    mutating func startServing(now: Instant) {
        // Only now: had the connection broken before, what we hold would have to be put back once more.
        born = bornSeen
        phase = .serving
        isDoubted = false
        redial.succeeded()
        redirects = 0
        nextBeat = now + lease.beatInterval
        if places > 0 { offeredAt = now }
        lastSaid = nil
        effects.append(.report(.connected(warnings: warnings)))
        noticed(deadLetters: lettersSeen)
        warnings = []
    }

    mutating func startReconciling() { phase = .reconciling }
    mutating func startLeaving() {
        phase = .leaving
        call(.unregister)
    }

    mutating func finish() {
        phase = .stopped
        effects.append(.hangUp)
        effects.append(.report(.stopped))
    }

    mutating func call(_ call: Call) { effects.append(.call(call)) }

    // MARK: The owner's word

    mutating func offer(places: Int, now: Instant) {
        isClaimFresh = false
        self.places = max(0, places)
        if self.places == 0 {
            offeredAt = nil
        } else if offeredAt == nil {
            offeredAt = now
        }
    }

    mutating func acknowledge(_ id: ClaimID, now: Instant) {
        if held.level(of: id) > 0 { return settle(Settlement(id: id, effect: .ack), now: now) }
        isClaimFresh = false
        settlements.addAcknowledgement(id, now: now)
    }

    mutating func settle(_ settlement: Settlement, now: Instant) {
        isClaimFresh = false
        let job = mode == .atMostOnce ? held.bytes(of: settlement.id) : nil
        settlements.add(settlement, field: held.field(of: settlement.id), job: job, now: now)
    }

    mutating func flush() { isFlushWanted = true }

    mutating func stop() { isStopping = true }

    // MARK: Time

    /// Does everything that is due. Each turn ends with it.
    mutating func advance(now: Instant) {
        if let doubtAt = lease.doubtAt, now >= doubtAt, phase != .stopped { doubt() }
        switch phase {
        case .resting:
            if isStopping && held.isEmpty && settlements.isEmpty {
                finish()  // What a lost answer may have left in Redis comes back by the next worker's reaping.
            } else if now >= redialAt {
                phase = .dialing
                effects.append(.dial)
            }
        case .serving: serve(now: now)
        case .dialing, .registering, .reconciling, .leaving, .stopped: break
        }
    }

    /// From here until `.connected` nothing more may go on the wire: our jobs may be others' soon.
    private mutating func doubt() {
        if isDoubted || mode == .atMostOnce { return }
        isDoubted = true
        effects.append(.report(.leaseInDoubt))
    }

    /// When `advance` has something to do, at the latest.
    var deadline: Instant? {
        var next = Earliest()
        if phase != .stopped && !isDoubted && mode == .atLeastOnce { next.consider(lease.doubtAt) }
        switch phase {
        case .resting: next.consider(redialAt)
        case .serving: considerServing(&next)
        case .dialing, .registering, .reconciling, .leaving, .stopped: break
        }
        return next.instant
    }
}
