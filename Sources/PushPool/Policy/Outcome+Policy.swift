extension Outcome {
    /// Whether APNs may have accepted the request without a response.
    package var isInDoubt: Bool {
        switch self {
        case .timedOut, .maybeProcessed: true
        case .delivered, .rejected, .notProcessed, .outdated, .begun: false
        }
    }

    /// Whether APNs evaluated the job and rejected it, which means that it accepted the credential.
    package var isAnswerAboutTheJob: Bool {
        guard case .rejected(let rejection) = self else { return false }
        return (400..<500).contains(rejection.status) && RetryPolicy.throttle(self) == nil
    }
}
