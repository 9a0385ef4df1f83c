internal import Platform

/// The client's end of a sequence of pushes. Cancels the pushes without a result when the reader ends.
final class ResultFeed: Sendable {
    private let core: ClientCore
    private let inbox: ResultInbox
    private let taker = Locked<Task<Void, Never>?>(nil)

    init(_ core: ClientCore, limit: Int) {
        self.core = core
        inbox = ResultInbox(limit: max(1, limit))
    }

    deinit { cancel() }

    /// The places for more pushes.
    var room: Int { inbox.room }
    var isCancelled: Bool { inbox.isCancelled }

    func submit(_ pushes: [(index: Int, push: Push)]) { Self.submit(pushes, to: inbox, core) }

    private static func submit(_ pushes: [(index: Int, push: Push)], to inbox: ResultInbox, _ core: ClientCore) {
        guard inbox.take(pushes.count) else { return }
        core.submit(pushes, to: inbox)
        // The cancellation has no effect on pushes that were submitted after it.
        if inbox.isCancelled { core.cancel(inbox) }
    }

    /// No more pushes follow.
    func finish() { inbox.finish() }

    /// Takes pushes from an asynchronous sequence and sends them, in a task that ends with the sequence or this object.
    ///
    /// - Parameter failed: called with the error of the sequence before the results end.
    func take<Pushes: AsyncSequence & Sendable>(
        from pushes: Pushes, failed: @escaping @Sendable (Pushes.Failure) -> Void
    ) where Pushes.Element == Push {
        let (core, inbox) = (core, inbox)
        let task = Task {
            defer { inbox.finish() }
            var source = pushes.makeAsyncIterator()
            var taken = 0
            do throws(Pushes.Failure) {
                while true {
                    await inbox.waitForRoom()
                    if inbox.isCancelled { return }
                    guard let push = try await source.next(isolation: nil) else { return }
                    Self.submit([(taken, push)], to: inbox, core)
                    taken += 1
                }
            } catch {
                if !inbox.isCancelled { failed(error) }
            }
        }
        taker.withLock { $0 = task }
    }

    func cancel() {
        inbox.cancel()
        taker.withLock { $0 }?.cancel()
        core.cancel(inbox)
    }

    /// Waits until there are results; none is the end. Cancelling the task cancels the pushes, which then have results.
    func receive() async -> [PushResult] {
        await withTaskCancellationHandler {
            await inbox.receive()
        } onCancel: {
            cancel()
        }
    }

    /// The reader has returned a result.
    func read() { inbox.read() }
}
