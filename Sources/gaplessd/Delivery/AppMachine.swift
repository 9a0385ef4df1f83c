import Platform
import PushPool

/// One app: its circuit breaker, the state of its pool, the number of jobs it holds, and the notifications that are ready for
/// the pool.
///
/// A job of an app is *outgoing* until the end of the turn, then *waiting* in the pool until a session takes it, then on a
/// stream. If the lease of its list is in doubt it is *suspended* here; if it waits for an acceptance of the app it is a
/// *suspect*.
///
/// It cannot be copied: a copy for each question would cost 700 instructions.
struct AppState: ~Copyable {
    /// A reading of the pool, taken once per turn.
    struct PoolReading: Equatable {
        /// Streams that the open sessions can have open in total.
        var capacity = 0
        /// The pool's own limit after ENHANCE_YOUR_CALM, in pushes per second.
        var limit: Int?
        /// Notifications that no session has taken. Read only under a rate limit.
        var waiting = 0
    }

    /// An app as a claim sees it.
    struct Demand {
        /// The number of further jobs of this app that may be claimed.
        var places: Int
        /// As in `PoolReading`.
        var limit: Int?
        /// Jobs that no session has taken.
        var waiting: Int
    }

    /// The longest wait of a suspect for an acceptance: then it is settled, because fewer than `CircuitBreaker.caution` came in a
    /// row, or the app is known.
    static let suspectTimeout = Duration.seconds(60)
    /// The time for which an app without a session, or with far too few streams for its claimed jobs, keeps them. Then they go
    /// back to the list, where LLEN counts them.
    static let unreachableTimeout = Duration.seconds(1)
    /// The time without a response after which an app that shares its lists counts as slow.
    static let slowAfter = Duration.seconds(1)
    /// The jobs of a slow app that are out at most when it takes more.
    static let slowPlaces = 10
    /// Jobs claimed beyond the streams keep the sessions busy between claims: one batch at most.
    private static let batch = 250

    var breaker = CircuitBreaker()
    var culprits = HoldCulprits()
    /// The last acceptance of a job by the present credential and server, with the topic of the app: in this process, to the
    /// second, or in another one. See `CircuitBreaker.proofLifetime`.
    private(set) var acceptedAt: Instant?
    private var nextAcceptance: Instant?
    /// Whether a session with the present credential has had an acceptance in this process.
    var isProven = false
    /// APNs has refused the credential of the settings, and the pool uses the previous one: acceptances do not prove that of the
    /// settings, by whose fingerprint other processes would look them up.
    private var usesPreviousCredential = false
    /// The outcomes of its attempts.
    var responses = ResponseFigures()
    private(set) var reading = PoolReading()
    /// Jobs of this app in flight, suspects included.
    private(set) var held = 0
    private(set) var suspects = 0
    /// In order of their responses. A suspect that another worker took over is no longer held.
    private var pendingSuspects: [(id: JobID, since: Instant)] = []
    private var outgoing: [Notification] = []
    private var suspended: [Notification] = []
    private(set) var sessions: Set<SessionID> = []
    /// The start of the time without an open session, or with far too few streams; `nil` otherwise.
    private var unreachableSince: Instant?
    /// The time at which its unsent jobs were last taken back for this reason.
    private var takenBackAt: Instant?
    /// The number of responses at the last look, and the time since which requests are out without another one.
    private var seenResponses = 0
    private var silentSince: Instant?
    /// All of its requests have been unanswered for `slowAfter`. Only a response ends this.
    private(set) var isSlow = false
    private var headers = SharedHeadersCache()
    private let listCount: Int
    /// The lists in which operators have paused it.
    private var pausedLists: Set<Int> = []
    /// The lists whose side list of this app has jobs.
    private var asideLists: Set<Int> = []

    init(listCount: Int) { self.listCount = listCount }

    // MARK: Facts

    mutating func observed(_ reading: PoolReading, now: Instant) {
        self.reading = reading
        // A new session may have one stream at first.
        if reading.capacity > 0 && placed <= 4 * mostPlaced {
            (unreachableSince, takenBackAt) = (nil, nil)
        } else if unreachableSince == nil {
            unreachableSince = now
        }
    }

    /// Looks for responses: for an app that shares its lists with others.
    mutating func watchResponses(now: Instant) {
        if responses.responses != seenResponses || (handedOver == 0 && !isSlow) {
            (seenResponses, silentSince, isSlow) = (responses.responses, nil, false)
        }
        guard handedOver > 0 else { return }
        let since = silentSince ?? now
        silentSince = since
        if now - since >= Self.slowAfter { isSlow = true }
    }

    mutating func setAside(_ isAside: Bool, in list: Int) {
        if isAside { asideLists.insert(list) } else { asideLists.remove(list) }
    }

    /// A session with the present credential had an acceptance. Only the first one of a second counts.
    ///
    /// - Parameter topic: of the app.
    mutating func accepted(_ job: HeldJob, topic: String?, now: Instant) {
        nextAcceptance = now + .seconds(1)
        if job.job.usesTopicOfApp || job.job.topic(ofApp: topic) == topic { acceptedAt = now }
    }

    /// A job of the app was accepted at this time, perhaps before this process began. Returns whether this is news.
    mutating func wasAccepted(at time: Instant, now: Instant) -> Bool {
        guard !isKnown(now: now), now - time < CircuitBreaker.proofLifetime else { return false }
        acceptedAt = time
        return true
    }

    /// The credential, the server or the topic has changed.
    mutating func forgetAcceptances() {
        (acceptedAt, nextAcceptance, isProven) = (nil, nil, false)
        usesPreviousCredential = false
    }

    mutating func credentialRefused() { usesPreviousCredential = true }

    mutating func opened(_ session: SessionID) { sessions.insert(session) }
    mutating func closed(_ session: SessionID) { sessions.remove(session) }

    mutating func setPaused(_ isPaused: Bool, in list: Int) {
        if isPaused { pausedLists.insert(list) } else { pausedLists.remove(list) }
    }

    /// A job is held from now on.
    mutating func took(_ id: JobID, _ job: HeldJob, topic: String?) {
        held += 1
        breaker.sent()
        send(id, job, topic: topic)
    }

    /// A held job goes out, for the first time or again.
    mutating func send(_ id: JobID, _ job: HeldJob, topic: String?) { outgoing.append(notification(id, job, topic: topic)) }

    mutating func becameSuspect(_ id: JobID, now: Instant) {
        suspects += 1
        pendingSuspects.append((id, now))
    }

    /// Removes the suspects, all or those that have waited long enough, and returns their numbers.
    mutating func takeSuspects() -> [JobID] {
        defer { pendingSuspects.removeAll(keepingCapacity: true) }
        return pendingSuspects.map(\.id)
    }

    mutating func takeOldSuspects(now: Instant) -> [JobID] {
        guard let first = pendingSuspects.first, first.since + Self.suspectTimeout <= now else { return [] }
        let old = pendingSuspects.prefix { $0.since + Self.suspectTimeout <= now }.map(\.id)
        pendingSuspects.removeFirst(old.count)
        return old
    }

    /// The job is no longer held.
    mutating func ended(_ job: HeldJob) {
        held -= 1
        if job.suspectResponse != nil { suspects -= 1 }
    }

    // MARK: Notifications

    /// A notification that was withdrawn from the pool waits until the lease is certain again.
    mutating func suspend(_ id: JobID, _ job: HeldJob, topic: String?) { suspended.append(notification(id, job, topic: topic)) }

    /// Suspends outgoing notifications for which `isInDoubt` holds.
    mutating func suspend(where isInDoubt: (JobID) -> Bool) {
        let doubtful = outgoing.filter { isInDoubt(JobID($0.id)) }
        if doubtful.isEmpty { return }
        outgoing.removeAll { isInDoubt(JobID($0.id)) }
        suspended += doubtful
    }

    /// Resumes suspended notifications for which `isCertain` holds, ahead of newer ones.
    mutating func resume(where isCertain: (JobID) -> Bool) {
        outgoing = suspended.filter { isCertain(JobID($0.id)) } + outgoing
        suspended.removeAll { isCertain(JobID($0.id)) }
    }

    /// Removes the notifications that have not been handed to the pool, of these jobs or of all, and returns their numbers.
    mutating func takeUnsent(of ids: Set<JobID>? = nil) -> [JobID] {
        func isWanted(_ notification: Notification) -> Bool { ids?.contains(JobID(notification.id)) ?? true }
        let unsent = (outgoing + suspended).filter(isWanted).map { JobID($0.id) }
        outgoing.removeAll(where: isWanted)
        suspended.removeAll(where: isWanted)
        return unsent
    }

    /// Moves the outgoing notifications to `batch`, which is empty.
    mutating func takeOutgoing(into batch: inout [Notification]) { swap(&outgoing, &batch) }

    // MARK: Questions

    /// Whether an acceptance changes nothing.
    var isAtRest: Bool { breaker.isAtRest && isProven }
    /// Whether the next acceptance counts.
    func notesAcceptance(now: Instant) -> Bool { nextAcceptance.map { $0 <= now } ?? true }
    /// Whether APNs has accepted a job within a day: see `CircuitBreaker`.
    func isKnown(now: Instant) -> Bool { acceptedAt.map { now - $0 < CircuitBreaker.proofLifetime } ?? false }

    /// The last acceptance, if it proves the credential of the settings.
    var provenAt: Instant? { usesPreviousCredential ? nil : acceptedAt }

    private var waiting: Int { reading.waiting + outgoing.count }
    /// Jobs that occupy places.
    private var placed: Int { held - suspects - suspended.count }
    /// Whether jobs are out that have no response yet.
    var isAwaiting: Bool { placed > 0 }
    /// Jobs that the pool has, waiting there or on streams.
    var handedOver: Int { max(0, placed - outgoing.count) }

    func isPaused(in list: Int) -> Bool { !pausedLists.isEmpty && pausedLists.contains(list) }
    var isPausedAnywhere: Bool { !pausedLists.isEmpty }
    private var isPaused: Bool { pausedLists.count == listCount }

    func isAside(in list: Int) -> Bool { !asideLists.isEmpty && asideLists.contains(list) }
    var isAsideAnywhere: Bool { !asideLists.isEmpty }

    func demand(now: Instant) -> Demand {
        Demand(places: places(now: now), limit: reading.limit, waiting: waiting)
    }

    private var mostPlaced: Int { reading.capacity + min(reading.capacity, Self.batch) }

    private func places(now: Instant) -> Int {
        guard reading.capacity > 0, !isPaused else { return 0 }
        let free = (isSlow ? min(Self.slowPlaces, mostPlaced) : mostPlaced) - placed
        return max(0, min(breaker.allowance(now: now, suspects: suspects) - held, free))
    }

    /// Whether an app that shares its lists may hold one more job that was claimed for any app: it holds at most twice as many as
    /// for its own places.
    var hasRoom: Bool { placed < (isSlow ? min(Self.slowPlaces, 2 * mostPlaced) : 2 * mostPlaced) }

    /// Whether a claimed job of the list may go out.
    func takesOne(from list: Int, now: Instant) -> Bool {
        reading.capacity > 0 && (breaker.isAtRest || held < breaker.allowance(now: now, suspects: suspects))
            && takesOne(under: reading.limit) && takenBackAt == nil && !isPaused(in: list)
    }

    private func takesOne(under limit: Int?) -> Bool {
        guard let limit else { return true }
        return placed < mostPlaced && waiting < ClaimBudget.Rate(pushesPerSecond: limit).mostWaiting
    }

    /// Whether it holds jobs and has been without a session, or with far too few streams, for too long.
    func isUnreachable(now: Instant) -> Bool {
        nextTakeBack.map { $0 <= now } ?? false
    }

    /// A job that is on a stream, or that went out again since, keeps the timer running: once per `unreachableTimeout`.
    private var nextTakeBack: Instant? {
        held > 0 ? (takenBackAt ?? unreachableSince).map { $0 + Self.unreachableTimeout } : nil
    }

    mutating func tookBack(now: Instant) { takenBackAt = now }

    /// Whether the last probes have ended without a response about the credential: a broken session, an expiry, another worker.
    var hasLostProbe: Bool { breaker.isProbing && held == suspects }

    func deadline(now: Instant) -> Instant? {
        var next = Earliest(nextTakeBack)
        if let probe = breaker.nextProbe, probe > now { next.consider(probe) }
        next.consider(breaker.deadline)
        if let first = pendingSuspects.first { next.consider(first.since + Self.suspectTimeout) }
        return next.instant
    }

    /// Looks up the parts of the job one by one: the job as a whole would be a copy.
    private mutating func notification(_ id: JobID, _ held: HeldJob, topic: String?) -> Notification {
        let token: Range<Int>
        let channel: String?
        var isOwn = held.maskedPayload == nil
        switch held.job.target {
        case .token(let digits): (token, channel) = (digits, nil)
        case .escapedToken(_, let content): (token, channel, isOwn) = (content, nil, false)
        case .channel(let id, let content): (token, channel) = (content, id)
        case .tokens: preconditionFailure("a job with several tokens was not split")
        }
        let headers = headers.shared(
            topic: held.job.topic(ofApp: topic), pushType: held.job.pushType, priority: held.job.priority, channel: channel)
        if !isOwn, let other = held.job.rewritten(maskedPayload: held.maskedPayload) {
            return Notification(
                id: id.rawValue, bytes: other.bytes, token: other.token, payload: other.payload, headers: headers,
                expiration: held.expiration, lifetime: held.lifetime, apnsID: held.job.apnsID, collapseID: held.job.collapseID,
                avoiding: held.avoiding)
        }
        return Notification(
            id: id.rawValue, bytes: held.job.bytes, token: token, payload: held.job.data, headers: headers,
            expiration: held.expiration, lifetime: held.lifetime, apnsID: held.job.apnsID, collapseID: held.job.collapseID,
            avoiding: held.avoiding)
    }
}
