internal import Platform
internal import PushPool

/// The circuit breaker of a client. It decides how many sends may be in the pool. While it is open, single sends are
/// probes, and all others fail with its error.
struct SendBreaker {
    typealias Effect = CircuitBreaker.Effect

    private let countsSuspectTokens: Bool
    private var breaker = CircuitBreaker()

    init(countsSuspectTokens: Bool) { self.countsSuspectTokens = countsSuspectTokens }

    var isHeld: Bool { breaker.isHeld }
    /// When `tick` has an effect.
    var deadline: Instant? { breaker.deadline }

    func allowance(now: Instant) -> Int { breaker.allowance(now: now) }

    /// The error of a send that the open breaker stops.
    func error(_ send: PendingSend? = nil, now: Instant) -> APNSError {
        let text = breaker.holdReason.map(HeldText.init)?.text ?? "the client is held"
        var error = send?.error(.held, .notSent, text) ?? APNSError(.held, .notSent, text)
        error.retryAfter = breaker.nextProbe.map { max(.zero, $0 - now) }
        return error
    }

    mutating func sent() { breaker.sent() }
    mutating func accepted() -> [Effect] { breaker.isAtRest ? [] : breaker.accepted() }

    /// - Parameter isAwaiting: whether sends are in the pool.
    mutating func tick(now: Instant, isAwaiting: Bool) -> [Effect] { breaker.tick(now: now, isAwaiting: isAwaiting) }

    mutating func faulted(_ reason: HoldReason, now: Instant) -> [Effect] { breaker.faulted(reason, now: now) }

    /// A session or a dial has failed.
    mutating func sessionFailed(_ error: SessionError, now: Instant) -> [Effect] {
        HoldReason(error).map { breaker.faulted($0, now: now) } ?? []
    }

    /// Another credential is in use: nothing is known about it.
    mutating func replacedCredential() { breaker = CircuitBreaker() }

    /// No send is in the pool: a probe has ended without a response.
    mutating func poolEmptied(now: Instant) -> [Effect] { breaker.probesWereLost(now: now) }

    /// A request has failed.
    ///
    /// - Parameter decision: of the standard rule; `nil` if the send ends in any case.
    mutating func failed(_ outcome: Outcome, _ decision: RetryPolicy.Decision?, now: Instant) -> [Effect] {
        var effects: [Effect] = []
        if let throttle = RetryPolicy.throttle(outcome) {
            effects = breaker.throttled(throttle.hold, for: throttle.pause, now: now)
        }
        switch decision {
        case .suspect where countsSuspectTokens: effects += breaker.suspected(now: now)
        case .suspect: effects += breaker.answered()
        case .deadLetter where RetryPolicy.isResponseAboutJob(outcome): effects += breaker.answered()
        case .deadLetter, .expire, .retryLater, nil: effects += breaker.probeWasInconclusive(now: now)
        case .resend, .postpone, .hold, .renewToken: break
        }
        return effects
    }
}

/// The reason for which a client is held, for the caller.
struct HeldText {
    let text: String

    init(_ reason: HoldReason) {
        text =
            switch reason {
            case .credential(let why):
                "APNs does not accept the credential (\(why)): check the key or certificate, its team, the server and the clock"
            case .unusable(let why): "the credential cannot be used (\(why))"
            case .untrusted(let why):
                "the identity of the APNs server cannot be verified (\(why)): check the root certificates and the clock"
            case .topic(let why): "APNs does not accept the topic of the configuration (\(why))"
            case .suspectTokens: "APNs has rejected 20 device tokens in a row: wrong server or topic?"
            case .tokenUpdates:
                "APNs reports too many provider token updates: the present token is kept, and no other is signed for 20 minutes"
            case .throttled(let why): "APNs asks for fewer pushes (\(why))"
            case .failing: "APNs is failing"
            }
    }
}
