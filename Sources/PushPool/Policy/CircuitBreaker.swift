package import Platform

/// Decides whether one app's jobs may go out: all of them (closed), at most 20 until the first acceptance (proving), or single
/// probes (open; half-open while one is out). Users call an app with an open breaker *held*.
///
/// A response that a wrong environment would explain (a suspect response) does not make a dead letter before a later acceptance.
/// A credential fault, or 20 suspect responses in a row, open the breaker: the jobs stay in the queue, and single jobs probe
/// whether the fault is gone. A closed breaker waits for acceptances that are on the wire: in a list with many dead tokens, 20 in
/// a row occur by chance. The wait ends when 2,000 in a row are suspect, a second after the last response, or after ten seconds.
///
/// An app is *known* if APNs has accepted one of its jobs within a day: its environment is right, and suspect tokens are wrong
/// ones. Then a closed breaker opens only when 2,000 responses in a row are suspect.
///
/// Errors of APNs itself (5xx, request timeouts) say nothing about a job. From the 20th in a row on the app is *failing*: 200 of
/// its jobs may fail in a second, and the next ones wait for the next second. After ten seconds the breaker opens.
///
/// A device token with too many requests (429) says nothing about the others. While more than nine of ten responses are of this
/// kind, the same limit applies, without an end: the jobs rest and return every few seconds, at the cost of sends. The breaker
/// stays closed.
///
///     phase                 fact                                            next
///     proving               acceptance                                      closed, settles suspects
///     proving               20 suspect responses in a row                   open (suspect tokens)
///     proving               the app is known from another process           closed
///     closed                acceptance                                      closed, settles suspects
///     closed, known         2,000 suspect responses in a row                open (suspect tokens)
///     closed, not known     20 in a row, and no acceptance in the wait      open (suspect tokens)
///     proving, closed       credential fault, throttle                      open
///     proving, closed       20 failures in a row, and 10 s of them          open (failing)
///     open                  another fault                                   open with that reason
///     open                  probes sent                                     half-open
///     half-open             acceptance                                      closed, settles suspects
///     half-open, sessions   response about the job, suspect response        proving: APNs knows the credential
///     half-open             fault, or no response about the credential      open, with a longer wait
///     half-open, suspects   suspect responses alone                         open, with more probes, up to 20
///     open, failing         acceptance, or a definite response              closed or proving, as before
///     open, throttled       acceptance or end for another app of the key    closed or proving
///     any                   reload                                          proving; closed if the app is known
///
/// "Sessions" are the reasons for which APNs refuses sessions: see `HoldReason.isOfSessions`.
@usableFromInline
package struct CircuitBreaker: Sendable {
    @usableFromInline
    package enum Phase: Equatable, Sendable {
        case proving
        case closed
        case open(HoldReason)
    }

    package enum Effect: Equatable {
        /// Log the reason, take back the jobs that are not on streams, and release suspects.
        case hold(HoldReason)
        /// Close the sessions and dial again before the next probe: APNs may go on refusing on the old ones.
        case reconnect
        /// Log that the app sends again.
        case resume
        /// Dead-letter the suspects: the environment is right, so the tokens are wrong.
        case settleSuspects
    }

    /// The most jobs that may be out before the first acceptance, and the number of suspect responses in a row that opens the
    /// breaker.
    package static let caution = 20
    /// After 20 suspect responses in a row, a closed breaker waits for an acceptance: for a second after the last response, for
    /// ten seconds at most, and until 2,000 in a row are suspect. They all return to the list in one turn of the main thread.
    package static let suspectSilence = Duration.seconds(1)
    package static let longestGrace = Duration.seconds(10)
    package static let mostSuspects = 2000
    /// The most jobs that may be out during this wait, in addition to the suspects: if only most of the tokens are dead, APNs
    /// accepts one of these jobs.
    package static let graceAllowance = 200
    /// How long an acceptance proves the credential, the server and the topic of an app.
    package static let proofLifetime = Duration.seconds(86_400)
    /// The wait between rounds of probes after suspect tokens. A round is one probe at first; while only suspect responses come,
    /// each is twice as large as the one before, up to `caution`.
    package static let suspectProbeInterval = Duration.seconds(5)
    /// The wait before the first probe after a credential fault. It doubles up to the longest.
    package static let firstProbeWait = Duration.seconds(5)
    package static let longestProbeWait = Duration.seconds(60)
    /// An acceptance, or another response about a job, makes up for this many responses of 429 to single tokens.
    package static let throttlesPerResponse = 9
    /// The time for which APNs may fail, from the 20th failure in a row on, before the breaker opens.
    package static let longestFailure = Duration.seconds(10)

    @usableFromInline package private(set) var phase = Phase.proving
    @usableFromInline package private(set) var suspectsInARow = 0
    /// The time of the 20th suspect response in a row.
    private var graceBegan: Instant?
    private var graceEnd: Instant?
    @usableFromInline package private(set) var failuresInARow = 0
    /// The time of the 20th failure in a row, until the breaker opens.
    private var failingSince: Instant?
    /// The responses of 429 to single tokens for which no other response has made up. From `caution` on the app is limited;
    /// beyond `graceAllowance` they do not count, so that the limit ends soon.
    @usableFromInline package private(set) var throttles = 0
    /// The failures of a limited app in this second.
    private var second = (failures: 0, end: Instant?.none)
    /// Whether the breaker was closed before it opened.
    private var wasClosed = false
    private var probeWait = CircuitBreaker.firstProbeWait
    package private(set) var nextProbe: Instant?
    /// The size of a round of probes, how many of this round are still to be sent, and how many have no response yet.
    private var probes = (size: 1, toSend: 1, out: 0)

    package init() {}

    private init(phase: Phase) { self.phase = phase }

    // Inlinable: a call from another module copies the breaker.
    @inlinable package var isClosed: Bool { if case .closed = phase { true } else { false } }
    /// Whether an acceptance changes nothing.
    @inlinable package var isAtRest: Bool { suspectsInARow == 0 && failuresInARow == 0 && throttles == 0 && isClosed }
    /// The next time at which `tick` may have an effect.
    package var deadline: Instant? {
        var next = Earliest(graceEnd)
        if let failingSince { next.consider(failingSince + Self.longestFailure) }
        if failureAllowance == 0 { next.consider(second.end) }
        return next.instant
    }
    /// Whether the breaker is half-open: a probe is out and has no response yet.
    package var isProbing: Bool { probes.out > 0 }
    /// Whether APNs answers this app with errors of its own alone. Then no job is at fault.
    package var isFailing: Bool { phase == .open(.failing) || failuresInARow >= Self.caution }
    /// Whether few of its jobs may fail in a second.
    private var isLimited: Bool { isFailing || throttles >= Self.caution }
    package var isHeld: Bool { holdReason != nil }
    package var holdReason: HoldReason? { if case .open(let reason) = phase { reason } else { nil } }

    /// Returns the most jobs of this app that may be out at once.
    ///
    /// - Parameter suspects: the number of them that wait for an acceptance.
    package func allowance(now: Instant, suspects: Int = 0) -> Int {
        switch phase {
        case .closed: isLimited || suspectsInARow >= Self.caution ? suspects + failureAllowance : Int.max
        case .proving: min(Self.caution, failureAllowance)
        case .open: if let nextProbe, nextProbe <= now { suspects + probes.out + probes.toSend } else { 0 }
        }
    }

    /// The jobs that may be out, and fail, in this second.
    private var failureAllowance: Int { max(0, Self.graceAllowance - second.failures) }

    /// APNs accepted a job. Under a throttle only the probe counts: the others were sent before it.
    package mutating func accepted() -> [Effect] {
        let hadSuspects = suspectsInARow > 0
        forgetSuspects()
        forgetFailures()
        throttlesWeighLess()
        switch phase {
        case .closed: return hadSuspects ? [.settleSuspects] : []
        case .proving:
            phase = .closed
            return [.settleSuspects]
        case .open(.throttled) where !isProbing: return []
        case .open:
            self = CircuitBreaker(phase: .closed)
            return [.resume, .settleSuspects]
        }
    }

    /// APNs accepted a job of the app within `proofLifetime`, before this process began or in another one.
    package mutating func wasAcceptedElsewhere() -> [Effect] {
        switch phase {
        case .proving:
            phase = .closed
            return []
        case .open(.suspectTokens):
            self = CircuitBreaker(phase: .closed)
            return [.resume]
        case .closed, .open: return []
        }
    }

    /// Opens the breaker when no acceptance came after 20 suspect responses in a row, or after 20 failures in a row.
    ///
    /// - Parameter isAwaiting: whether jobs of the app are out that have no response yet.
    package mutating func tick(now: Instant, isAwaiting: Bool) -> [Effect] {
        if let failingSince, failingSince + Self.longestFailure <= now { return open(.failing, now: now) }
        if let end = second.end, end <= now { second = (0, nil) }
        guard let graceBegan, let graceEnd, graceEnd <= now else { return [] }
        if !isAwaiting || graceBegan + Self.longestGrace <= now { return open(.suspectTokens, now: now) }
        extendGrace(now: now)
        return []
    }

    /// APNs gave a suspect response.
    ///
    /// - Parameter isKnown: whether APNs has accepted a job of the app within `proofLifetime`.
    package mutating func suspected(now: Instant, isKnown: Bool = false) -> [Effect] {
        switch phase {
        case .closed:
            suspectsInARow += 1
            if suspectsInARow >= Self.mostSuspects { return open(.suspectTokens, now: now) }
            if suspectsInARow >= Self.caution && !isKnown { extendGrace(now: now) }
            return []
        case .open(.credential), .open(.untrusted), .open(.tokenUpdates),
            .open(.throttled) where isProbing:
            let effects = answered()
            suspectsInARow = 1
            return effects
        case .open:
            guard isProbing else { return [] }
            if phase == .open(.suspectTokens) && probes.out == 1 { probes.size = min(2 * probes.size, Self.caution) }
            return probeEnded(now: now)
        case .proving:
            suspectsInARow += 1
            return suspectsInARow < Self.caution ? [] : open(.suspectTokens, now: now)
        }
    }

    /// APNs rejected a job for its own faults: it accepts the credential.
    package mutating func answered() -> [Effect] {
        switch phase {
        case .open(.credential), .open(.untrusted), .open(.tokenUpdates),
            .open(.throttled) where isProbing:
            self = CircuitBreaker()
            return [.resume]
        default: return []
        }
    }

    /// APNs failed: 5xx, 408, or no response in time.
    package mutating func failed(now: Instant) {
        if isHeld { return }
        failuresInARow += 1
        if failuresInARow == Self.caution { failingSince = now }
        countFailure(now: now)
    }

    private mutating func countFailure(now: Instant) {
        if isLimited { second = (second.failures + 1, second.end ?? now + .seconds(1)) }
    }

    /// A device token has too many requests. `failuresEnded` comes first.
    package mutating func tokenThrottled(now: Instant) {
        throttles = min(throttles + 1, Self.graceAllowance)
        countFailure(now: now)
    }

    /// APNs gave a response about a job, which is no acceptance and no 429.
    package mutating func throttlesWeighLess() {
        throttles = max(0, throttles - Self.throttlesPerResponse)
        if !isLimited { second = (0, nil) }
    }

    /// APNs gave a response that is no failure.
    package mutating func failuresEnded() -> [Effect] {
        forgetFailures()
        guard phase == .open(.failing) else { return [] }
        self = CircuitBreaker(phase: wasClosed ? .closed : .proving)
        return [.resume]
    }

    /// The credential, a topic of the settings or the provider token is at fault.
    package mutating func faulted(_ reason: HoldReason, now: Instant) -> [Effect] {
        guard case .open(let known) = phase else { return open(reason, now: now) }
        phase = .open(reason)
        if isProbing {
            let effects = postponeProbe(now: now)
            return known == reason ? effects : [.hold(reason)] + effects
        }
        // A response to a job that was out when the breaker opened, or a failed dial: no probe was sent, so the wait stays.
        if known.isLike(reason) { return [] }
        return known == .suspectTokens || known == .failing ? [.hold(reason), .reconnect] : [.hold(reason)]
    }

    /// APNs wants no pushes for a while.
    ///
    /// - Parameters:
    ///   - pause: as APNs specified it, if it did. A pause of 0, or a date in the past, is none.
    ///   - isOwnResponse: false if another app with the same credential got the response.
    package mutating func throttled(
        _ reason: HoldReason, for pause: Duration?, now: Instant, isOwnResponse: Bool = true
    ) -> [Effect] {
        let isResponseOfProbe = isProbing && isOwnResponse
        switch phase {
        case .open(.throttled) where !isResponseOfProbe:
            if let pause { nextProbe = nextProbe.map { max($0, now + pause) } }
            return []
        case .open where !isResponseOfProbe: return []
        case .open, .closed, .proving: break
        }
        let effects = isResponseOfProbe ? postponeProbe(now: now) : open(reason, now: now)
        if case .open(.throttled) = phase, let pause, pause > .zero { nextProbe = now + pause }
        return effects
    }

    /// Another app with the same credential may send again.
    package mutating func throttleEnded() -> [Effect] {
        guard case .open(.throttled) = phase else { return [] }
        self = CircuitBreaker()
        return [.resume]
    }

    /// A job goes out. While the breaker is open it is a probe, and once the round is complete no other job goes out until all
    /// its probes have ended.
    package mutating func sent() {
        guard case .open = phase else { return }
        probes.out += 1
        probes.toSend = max(0, probes.toSend - 1)
        if probes.toSend == 0 { nextProbe = nil }
    }

    /// A probe ended without a response about the credential (a timeout, a 503, a lost session).
    package mutating func probeWasInconclusive(now: Instant) -> [Effect] {
        guard case .open = phase, isProbing else { return [] }
        return probeEnded(now: now)
    }

    /// No job of the app is out: its probes have ended without a response.
    package mutating func probesWereLost(now: Instant) -> [Effect] {
        guard case .open = phase, isProbing else { return [] }
        return postponeProbe(now: now)
    }

    /// The settings and credentials were reloaded: the app starts again. Errors of APNs itself say nothing about the settings:
    /// their row goes on.
    ///
    /// - Parameter isKnown: whether APNs has accepted a job with this credential, server and topic within `proofLifetime`.
    package mutating func reloaded(isKnown: Bool = false, now: Instant) -> [Effect] {
        let (wasHeld, wasFailing) = (isHeld, isFailing)
        self = CircuitBreaker(phase: isKnown ? .closed : .proving)
        if wasFailing { (failuresInARow, failingSince) = (Self.caution, now) }
        return wasHeld ? [.resume] : []
    }

    private mutating func extendGrace(now: Instant) {
        let began = graceBegan ?? now
        graceBegan = began
        graceEnd = min(now + Self.suspectSilence, began + Self.longestGrace)
    }

    private mutating func forgetSuspects() { (suspectsInARow, graceBegan, graceEnd) = (0, nil, nil) }
    private mutating func forgetFailures() {
        (failuresInARow, failingSince) = (0, nil)
        if !isLimited { second = (0, nil) }
    }

    private mutating func open(_ reason: HoldReason, now: Instant) -> [Effect] {
        let wasClosed = isClosed
        self = CircuitBreaker(phase: .open(reason))
        self.wasClosed = wasClosed
        nextProbe = now + probeWait
        return reason.isOfSessions ? [.hold(reason), .reconnect] : [.hold(reason)]
    }

    /// One probe has ended. The last one of a round sets the time of the next round.
    private mutating func probeEnded(now: Instant) -> [Effect] {
        if probes.out > 1 {
            probes.out -= 1
            return []
        }
        return postponeProbe(now: now)
    }

    private mutating func postponeProbe(now: Instant) -> [Effect] {
        guard case .open(let reason) = phase else { return [] }
        if reason != .suspectTokens { probes.size = 1 }
        (probes.toSend, probes.out) = (probes.size, 0)
        if reason == .suspectTokens {
            nextProbe = now + Self.suspectProbeInterval
            return []
        }
        probeWait = min(probeWait * 2, Self.longestProbeWait)
        nextProbe = now + probeWait
        return reason.isOfSessions ? [.reconnect] : []
    }
}
