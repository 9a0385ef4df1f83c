internal import PushPool
internal import SystemTime

/// One push between `send` and its result.
struct PendingSend {
    enum Phase: Equatable {
        /// The pool is full, or has no session.
        case waiting
        /// In the pool: it waits there, or is on a stream.
        case pooled
        /// Goes out again at this time.
        case resting(until: Instant)
        /// Goes out again once there is another provider token.
        case renewingToken
    }

    let request: PushRequest
    let deadline: Instant?
    var phase = Phase.waiting
    /// The reason for which it ends as soon as the pool lets go of it: cancelled, past its deadline, shut down.
    var ending: APNSError.Cause?
    /// Requests that were made.
    var requests = 0
    /// Counted resends, uncounted resends, and those of the latter that may have caused a duplicate.
    var attempts = 0
    var resends = 0
    var doubtful = 0
    /// Whether an earlier request may have been accepted.
    var mayBeSent = false
    /// The session that failed it last.
    var avoiding: SessionID?
    /// The error of the last request.
    var lastError: APNSError?

    init(_ request: PushRequest, deadline: Instant?) {
        self.request = request
        self.deadline = deadline
    }

    var standing: RetryPolicy.Standing {
        let isBroadcast: Bool = if case .channel = request.push.target { true } else { false }
        return RetryPolicy.Standing(
            attempts: attempts, resends: resends, doubtful: doubtful, isTopicFromSettings: request.usesDefaultTopic,
            namesChannel: isBroadcast)
    }

    /// The error as the caller gets it. An earlier request in doubt decides its fate, and the last response is kept.
    func error(_ cause: APNSError.Cause, _ fate: APNSError.Fate, _ message: String) -> APNSError {
        var error = APNSError(cause, mayBeSent ? .maybeSent : fate, message)
        error.attempts = requests
        error.response = lastError?.response
        error.retryAfter = lastError?.retryAfter
        return error
    }
}
