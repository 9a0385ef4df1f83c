import Platform

/// What an app knows about its pool: its streams, whether it is unreachable, and whether it is slow. Decides which failed dials
/// are logged.
struct PoolHealth {
    /// A reading of the pool, taken once per turn.
    struct Reading: Equatable {
        /// Streams that the open sessions can have open in total.
        var capacity = 0
        /// The pool's own limit in pushes per second: that of the settings, or a lower one after ENHANCE_YOUR_CALM.
        var limit: Double?
        /// Notifications that no session has taken. Read only under a rate limit.
        var waiting = 0
    }

    /// The time for which an app without a session, or with far too few streams for its claimed jobs, keeps them. Then they go
    /// back to the list, where LLEN counts them.
    static let unreachableTimeout = Duration.seconds(1)
    /// The time without a response after which an app that shares its lists counts as slow.
    static let slowAfter = Duration.seconds(1)
    /// The jobs of a slow app that are out at most when it takes more.
    static let slowPlaces = 10
    /// Jobs claimed beyond the streams keep the sessions busy between claims: one batch at most.
    static let batch = 250

    private(set) var reading = Reading()
    /// Whether the pool was made for jobs and has had no session yet.
    private(set) var isOpening: Bool
    /// The start of the time without an open session, or with far too few streams; `nil` otherwise.
    private var unreachableSince: Instant?
    /// The time at which unsent jobs were last taken back for this reason.
    private var takenBackAt: Instant?
    /// The number of responses at the last look, and the time since which requests are out without another one.
    private var seenResponses = 0
    private var silentSince: Instant?
    /// All requests have been unanswered for `slowAfter`. Only a response ends this.
    private var isSlow = false
    /// The failed dials since a session last opened; `nil` if there are none.
    private var outage: DialOutage?

    /// - Parameters:
    ///   - isOpening: whether jobs wait for the pool.
    ///   - now: `nil` for an app without a pool.
    init(isOpening: Bool, now: Instant?) { (self.isOpening, unreachableSince) = (isOpening, now) }

    /// - Parameter placed: the jobs that occupy places.
    mutating func observed(_ reading: Reading, placed: Int, now: Instant) {
        self.reading = reading
        if reading.capacity > 0 { isOpening = false }
        // A new session may have one stream at first.
        if reading.capacity > 0 && placed <= 4 * mostPlaced {
            (unreachableSince, takenBackAt) = (nil, nil)
        } else if unreachableSince == nil {
            unreachableSince = now
        }
    }

    /// Looks for responses to the jobs that the pool has: for an app that shares its lists with others.
    mutating func watch(responses: Int, handedOver: Int, now: Instant) {
        if responses != seenResponses || (handedOver == 0 && !isSlow) {
            (seenResponses, silentSince, isSlow) = (responses, nil, false)
        }
        guard handedOver > 0 else { return }
        let since = silentSince ?? now
        silentSince = since
        if now - since >= Self.slowAfter { isSlow = true }
    }

    /// The time at which the jobs that no session has taken go back. A job that is on a stream, or that went out again since,
    /// keeps the timer running: once per `unreachableTimeout`.
    var nextTakeBack: Instant? { (takenBackAt ?? unreachableSince).map { $0 + Self.unreachableTimeout } }
    mutating func tookBack(now: Instant) { (takenBackAt, isOpening) = (now, false) }

    /// Whether the app may take jobs: it has sessions, or they open for the first jobs.
    func takesAny(besides held: Int) -> Bool {
        reading.capacity > 0 && takenBackAt == nil || isOpening && held < AppMachine.mostWhileOpening
    }

    private var mostPlaced: Int { reading.capacity + min(reading.capacity, Self.batch) }

    /// Returns how many further jobs the pool has places for; may be negative.
    func places(besides placed: Int) -> Int {
        reading.capacity == 0 ? 0 : (isSlow ? min(Self.slowPlaces, mostPlaced) : mostPlaced) - placed
    }

    /// Whether an app that shares its lists may hold one more job that was claimed for any app: it holds at most twice as many as
    /// for its own places.
    func hasRoom(besides placed: Int) -> Bool {
        isOpening || placed < (isSlow ? min(Self.slowPlaces, 2 * mostPlaced) : 2 * mostPlaced)
    }

    /// Whether the pool's own limit allows one more job.
    func takesOne(besides placed: Int, waiting: Int) -> Bool {
        guard let limit = reading.limit else { return true }
        return placed < mostPlaced && waiting < ClaimBudget.Rate(pushesPerSecond: limit).mostWaiting
    }

    // MARK: Failed dials

    /// Returns the outage if the log gets a line about this dial: see `DialOutage`.
    mutating func dialFailed(_ reason: String, now: Instant) -> DialOutage? {
        var present = outage ?? DialOutage(start: now)
        let isLogged = present.failed(reason, now: now)
        outage = present
        return isLogged ? present : nil
    }

    /// A session is open. Returns the outage that it ends.
    mutating func sessionOpened() -> DialOutage? { outage.take() }

    /// The settings or the credential are new: the next failed dial is logged, although its reason may be known.
    mutating func settingsChanged() { outage?.logNext() }
}

/// The failed dials of an app from the first one until a session opens.
///
/// The log gets a line for the first one and for each of the first reasons. The others are counted, and lines with their numbers
/// follow at growing distances: sessions that fail for one reason are one fault.
struct DialOutage {
    /// The time until the first line with numbers. It doubles with each such line.
    static let firstDistance = Duration.seconds(10)
    static let longestDistance = Duration.seconds(600)
    /// The number of reasons that are told apart: a text may name what changes with each dial.
    static let mostReasons = 4

    private let start: Instant
    private(set) var dials = 0
    /// How often each of the first reasons occurred, in the order of their first occurrence.
    private var reasons: [(text: String, dials: Int)] = []
    private var distance = DialOutage.firstDistance
    private var nextLine: Instant

    init(start: Instant) {
        (self.start, nextLine) = (start, start)
    }

    /// Counts a failed dial. Returns whether it is logged.
    mutating func failed(_ reason: String, now: Instant) -> Bool {
        dials += 1
        let isDue = nextLine <= now
        if isDue {
            nextLine = now + distance
            distance = min(distance * 2, Self.longestDistance)
        }
        if let known = reasons.firstIndex(where: { $0.text == reason }) {
            reasons[known].dials += 1
            return isDue
        }
        if reasons.count == Self.mostReasons { return isDue }
        reasons.append((reason, 1))
        return true
    }

    /// Logs the next failed dial, whatever its reason.
    mutating func logNext() { (distance, nextLine) = (Self.firstDistance, start) }

    /// The numbers for the log: `9 failed dials in 42 s`, with the numbers by reason if there are several.
    func figures(now: Instant) -> String {
        let total = "\(dials.logged("failed dial")) in \(((now - start) / .seconds(1)).span)"
        if reasons.count == 1 { return total }
        let others = dials - reasons.reduce(0) { $0 + $1.dials }
        let parts = reasons.map { "\($0.text): \($0.dials)" } + (others > 0 ? ["other reasons: \(others)"] : [])
        return "\(total); \(parts.joined(separator: "; "))"
    }
}
