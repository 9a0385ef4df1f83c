internal import PushPool

#if Logging
    internal import Logging
#endif
#if Metrics
    internal import CoreMetrics
    internal import Platform
#endif

/// Passes on what happens in a client: to swift-log with the trait Logging, and to swift-metrics with the trait Metrics. Without
/// the traits it has no code. Its methods are called without a lock.
struct ClientObserver: Sendable {
    #if Logging
        private let logger: Logger?
        /// The reason of the hold that was logged last; `nil` after the hold.
        private let hold = Locked<HoldReason?>(nil)
    #endif
    #if Metrics
        private let accepted: Counter?
        private let failed: [APNSError.Cause: Counter]
        private let failedDials: Counter?
        private let sessions: Meter?
        private let open = Locked<Set<SessionID>>([])
    #endif

    init(_ configuration: APNSConfiguration) {
        #if Logging
            logger = configuration.logger
        #endif
        #if Metrics
            let factory = configuration.metrics
            func pushes(_ outcome: String) -> Counter? {
                factory.map { Counter(label: "apns_client_pushes", dimensions: [("outcome", outcome)], factory: $0) }
            }
            accepted = pushes("accepted")
            failed = Dictionary(
                uniqueKeysWithValues: APNSError.Cause.allCases.compactMap { cause in pushes("\(cause)").map { (cause, $0) } })
            failedDials = factory.map { Counter(label: "apns_client_failed_dials", factory: $0) }
            sessions = factory.map { Meter(label: "apns_client_sessions", factory: $0) }
        #endif
    }

    /// A push has its result.
    func ended(_ result: Result<Receipt, APNSError>) {
        #if Metrics
            switch result {
            case .success: accepted?.increment()
            case .failure(let error): failed[error.cause]?.increment()
            }
        #endif
    }

    /// An event of the pool, which is rare and never per push.
    func happened(_ event: PoolEvent) {
        #if Logging
            if let logger { log(event, logger) }
        #endif
        #if Metrics
            switch event {
            case .opened(let session, _, _): change { $0.insert(session) }
            case .closed(let session, _, _): change { $0.remove(session) }
            case .dialFailed: failedDials?.increment()
            default: break
            }
        #endif
    }

    #if Logging
        /// - Parameter reason: of the present hold; `nil` without a hold.
        func held(_ reason: HoldReason?) {
            let before = hold.withLock { hold in
                defer { hold = reason }
                return hold
            }
            if before == reason { return }
            if let reason {
                logger?.error("APNs client is held", metadata: ["reason": "\(reason.sentences.client)"])
            } else {
                logger?.notice("APNs client sends again")
            }
        }

        private func log(_ event: PoolEvent, _ logger: Logger) {
            switch event {
            case .opened(let session, let address, let streams):
                logger.debug(
                    "Session to APNs opened",
                    metadata: ["session": "\(session.number)", "address": "\(address)", "streams": "\(streams)"])
            case .closed(let session, let address, let error):
                logger.debug(
                    "Session to APNs closed",
                    metadata: ["session": "\(session.number)", "address": "\(address)", "reason": "\(error.text)"])
            case .dialFailed(_, let address, let error, let pause):
                logger.warning(
                    "Dial to APNs failed", metadata: ["address": "\(address)", "reason": "\(error.text)", "retry_in": "\(pause)"])
            case .credentialRefused(let why, let pause):
                logger.error("APNs refuses the new credential", metadata: ["reason": "\(why)", "retry_in": "\(pause)"])
            case .slowed(let rate):
                logger.warning("APNs asks for fewer pushes", metadata: ["pushes_per_second": "\(rate)"])
            case .tokens(.minted(let key)): logger.debug("Provider token signed", metadata: ["key": "\(key)"])
            case .tokens(.notKept(let key, let why)):
                logger.warning("Provider token cannot be stored", metadata: ["key": "\(key)", "reason": "\(why)"])
            case .resized(let before, let count):
                logger.debug("Number of sessions changed", metadata: ["from": "\(before)", "to": "\(count)"])
            case .capacityChanged, .slowdownEnded, .tokens(.found), .limited: break
            }
        }
    #endif

    #if Metrics
        private func change(_ body: (inout Set<SessionID>) -> Void) {
            // Under the lock, so that the last value is the newest.
            open.withLock { open in
                body(&open)
                sessions?.set(open.count)
            }
        }
    #endif
}
