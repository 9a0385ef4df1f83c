/// Sends pushes: ``APNSClient``, or the stand-in of a test.
public protocol PushSender: Sendable {
    /// Sends a push and waits for the response of APNs.
    func send(_ push: Push) async throws(APNSError) -> Receipt
}

/// Sends pushes to Apple's push service over HTTP/2 sessions that it keeps open.
///
/// ``send(_:)`` returns when APNs has responded. Temporary errors are retried by the rule of the configuration. While the
/// sessions are full, callers are suspended.
///
/// The methods may be called from any task. The client dials at the first call of ``start()`` or ``send(_:)``. Call
/// ``shutdown(within:)`` before the last reference ends: a client that ends without it sends nothing more.
public final class APNSClient: PushSender {
    let core: ClientCore

    /// Checks the configuration and its credential. It opens no connection.
    ///
    /// - Throws: ``APNSError`` with the cause ``APNSError/Cause/invalid``.
    public init(_ configuration: APNSConfiguration) throws(APNSError) { core = try ClientCore(configuration) }

    deinit { core.stop(within: .zero) }

    /// Waits until the first session is open. Optional: it reports a wrong host or credential early.
    ///
    /// - Throws: the error of the first dial. The client goes on dialling, so a later send may succeed.
    public func start() async throws(APNSError) { try await core.start() }

    /// Sends a push and waits for the response of APNs.
    ///
    /// Cancelling the task withdraws the push, or resets its stream if it is on the wire. The error tells which by its fate.
    public func send(_ push: Push) async throws(APNSError) -> Receipt {
        let core = core
        let id = core.reserve()
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                core.submit(id, push, .caller(continuation))
                // The handler has no effect if it ran before `submit`.
                if Task.isCancelled { core.cancel(id) }
            }
        } onCancel: {
            core.cancel(id)
        }
        return try result.get()
    }

    /// Sends the pushes of a sequence. The results arrive in the order of their completion.
    ///
    ///     for await result in client.results(ofSending: pushes) {
    ///         if case .failure(let error) = result.result, error.token == .dead { … }
    ///     }
    ///
    /// The client takes pushes from the sequence as results are read. Cancelling the reading task, or ending the loop early,
    /// cancels the pushes that have no result and takes no more.
    ///
    /// - Parameters:
    ///   - pushes: each is taken when there is room for it.
    ///   - limit: the most pushes without a result that was read, at least 1.
    public func results<Pushes: Sequence>(
        ofSending pushes: Pushes, atMost limit: Int = 2000
    ) -> PushResults<Pushes> where Pushes.Element == Push {
        PushResults(pushes, self, limit: limit)
    }

    /// Sends the pushes of an asynchronous sequence, for example of an `AsyncStream`. The results arrive in the order of their
    /// completion, also while the sequence waits for its next push.
    ///
    /// A task of the client takes pushes from the sequence while there is room, from the first read to the end of the loop.
    /// Cancelling the reading task, or ending the loop early, cancels that task and the pushes that have no result.
    ///
    /// - Parameters:
    ///   - pushes: each is taken when there is room for it.
    ///   - limit: the most pushes without a result that was read, at least 1.
    public func results<Pushes: AsyncSequence & Sendable>(
        ofSending pushes: Pushes, atMost limit: Int = 2000
    ) -> AsyncPushResults<Pushes> where Pushes.Element == Push {
        AsyncPushResults(pushes, self, limit: limit)
    }

    /// Uses another credential from now on, for example a new key before the old one is revoked. No push is lost.
    ///
    /// Sessions with the new credential open, and those with the earlier one close when APNs has accepted a push with the new
    /// one. If APNs refuses the new credential, the client continues with the earlier one, provided that APNs has accepted it,
    /// and tries the new one again after a minute. A hold of the client ends. The topic of a certificate replaces that of the
    /// earlier one, unless the configuration names a topic.
    ///
    /// - Throws: ``APNSError`` with the cause ``APNSError/Cause/invalid``; the client then keeps its credential.
    public func replaceAuthentication(with authentication: APNSAuthentication) throws(APNSError) {
        try core.replaceAuthentication(with: authentication)
    }

    /// Sends nothing more, waits for the pushes that have no result, and closes the sessions.
    ///
    /// - Parameter limit: the longest wait. Then the remaining pushes fail with the cause ``APNSError/Cause/shutDown``.
    public func shutdown(within limit: Duration = .seconds(30)) async { await core.shutDown(within: limit) }
}

#if ServiceLifecycle
    public import ServiceLifecycle

    extension APNSClient: Service {
        /// Dials, waits for the graceful shutdown of the service group, and shuts down.
        public func run() async throws {
            do throws(APNSError) {
                try await start()
            } catch  where error.cause == .held || error.cause == .invalid { throw error } catch {}
            try? await gracefulShutdown()
            await shutdown()
        }
    }
#endif
