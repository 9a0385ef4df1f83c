import Clocks

/// Whether one app's jobs may go out: all, a cautious few, or one probe at a time.
///
/// Until APNs has accepted something, at most 20 jobs are out and answers that look like a wrong environment bury
/// nobody. A credential fault, or 20 such answers, hold the app: its jobs stay in the queue and a single job at a time
/// finds out whether it is over. A pure value: facts in, effects out.
struct CircuitBreaker {
    enum Phase: Equatable {
        /// Nothing accepted yet.
        case proving
        case open
        case held(HoldReason)
    }

    enum Effect: Equatable {
        /// Say it loudly, take back what is not on the wire, and give back what waits for a first acceptance.
        case hold(HoldReason)
        /// Close the sessions and dial anew before the next probe: the old ones may be wedged.
        case reconnect
        /// Say that it is over.
        case resume
        /// Bury what waited for a first acceptance: the environment is right, so the tokens are wrong.
        case settleSuspects
    }

    /// How many may be out before the first acceptance, and how many suspect answers make a hold.
    static let caution = 20
    /// Between probes after suspect tokens.
    static let suspectProbeInterval = Duration.seconds(5)
    /// Between probes after a credential fault: from the first, doubling, to the longest.
    static let firstProbeWait = Duration.seconds(5)
    static let longestProbeWait = Duration.seconds(60)

    private(set) var phase = Phase.proving
    private var suspectsInARow = 0
    private var probeWait = CircuitBreaker.firstProbeWait
    private(set) var nextProbe: Instant?
    /// A probe is out and has not been answered.
    private(set) var isProbing = false

    var isOpen: Bool { if case .open = phase { true } else { false } }

    /// How many of this app's jobs may be out at once.
    func allowance(now: Instant) -> Int {
        switch phase {
        case .open: Int.max
        case .proving: Self.caution
        case .held: if let nextProbe, nextProbe <= now { 1 } else { 0 }
        }
    }

    /// APNs has taken one. While it wants fewer, what was already out says nothing: only the probe's answer counts.
    mutating func accepted() -> [Effect] {
        suspectsInARow = 0
        switch phase {
        case .open: return []
        case .proving:
            phase = .open
            return [.settleSuspects]
        case .held(.throttled) where !isProbing: return []
        case .held:
            phase = .open
            nextProbe = nil
            isProbing = false
            probeWait = Self.firstProbeWait
            return [.resume, .settleSuspects]
        }
    }

    /// APNs has answered in a way that a wrong environment or topic would explain. Whether the job may be buried at once.
    mutating func suspected(now: Instant) -> (mayBury: Bool, effects: [Effect]) {
        switch phase {
        case .open: return (true, [])
        case .held(.credential), .held(.untrusted), .held(.tokenUpdates),
            .held(.throttled) where isProbing:
            let effects = answered()
            suspectsInARow = 1
            return (false, effects)
        case .held:
            return (false, isProbing ? postponeProbe(now: now) : [])
        case .proving:
            suspectsInARow += 1
            return (false, suspectsInARow < Self.caution ? [] : hold(.suspectTokens, now: now))
        }
    }

    /// APNs has judged a job by its own faults: it knows the credential, whatever it thinks of the job.
    mutating func answered() -> [Effect] {
        switch phase {
        case .held(.credential), .held(.untrusted), .held(.tokenUpdates),
            .held(.throttled) where isProbing:
            self = CircuitBreaker()
            return [.resume]
        default: return []
        }
    }

    /// A fault of the credential, the topic of the settings, or the provider token.
    mutating func faulted(_ reason: HoldReason, now: Instant) -> [Effect] {
        if case .held(let known) = phase {
            phase = .held(reason)
            if isProbing {
                let effects = postponeProbe(now: now)
                return known == reason ? effects : [.hold(reason)] + effects
            }
            // Answers to what was already out when the hold began, or another dial that failed: nobody has probed, so the wait stays.
            if known.isLike(reason) { return [] }
            return known == .suspectTokens ? [.hold(reason), .reconnect] : [.hold(reason)]
        }
        return hold(reason, now: now)
    }

    /// APNs wants nothing for a while, `pause` if it says for how long. Of apps with one credential only the one that was told
    /// itself has had an answer.
    mutating func throttled(
        _ reason: HoldReason, for pause: Duration?, now: Instant, isToldItself: Bool = true
    ) -> [Effect] {
        let isAnswerOfProbe = isProbing && isToldItself
        switch phase {
        case .held(.throttled) where !isAnswerOfProbe:
            if let pause { nextProbe = nextProbe.map { max($0, now + pause) } }
            return []
        case .held where !isAnswerOfProbe: return []
        case .held, .open, .proving: break
        }
        let effects = isAnswerOfProbe ? postponeProbe(now: now) : hold(reason, now: now)
        if case .held(.throttled) = phase, let pause { nextProbe = now + pause }
        return effects
    }

    /// Another app with the same credential may send again.
    mutating func throttleEnded() -> [Effect] {
        guard case .held(.throttled) = phase else { return [] }
        self = CircuitBreaker()
        return [.resume]
    }

    /// A probe goes out: until it is answered, no other does.
    mutating func probed() {
        guard case .held = phase else { return }
        isProbing = true
        nextProbe = nil
    }

    /// A probe ended in a way that says nothing about the credential (a time-out, a 503, a lost session).
    mutating func probeWasInconclusive(now: Instant) -> [Effect] {
        guard case .held = phase, isProbing else { return [] }
        return postponeProbe(now: now)
    }

    /// The settings or the credential were read anew: prove it from the start, at once.
    mutating func reloaded() -> [Effect] {
        let wasHeld = if case .held = phase { true } else { false }
        self = CircuitBreaker()
        return wasHeld ? [.resume] : []
    }

    private mutating func hold(_ reason: HoldReason, now: Instant) -> [Effect] {
        phase = .held(reason)
        suspectsInARow = 0
        isProbing = false
        probeWait = Self.firstProbeWait
        nextProbe = now + probeWait
        return reason.isOfSessions ? [.hold(reason), .reconnect] : [.hold(reason)]
    }

    private mutating func postponeProbe(now: Instant) -> [Effect] {
        isProbing = false
        guard case .held(let reason) = phase else { return [] }
        if reason == .suspectTokens {
            nextProbe = now + Self.suspectProbeInterval
            return []
        }
        probeWait = min(probeWait * 2, Self.longestProbeWait)
        nextProbe = now + probeWait
        return reason.isOfSessions ? [.reconnect] : []
    }
}
