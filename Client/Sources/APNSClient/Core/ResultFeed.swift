internal import Platform

/// The client's end of a sequence of pushes. Cancels the pushes without a result when the reader ends.
final class ResultFeed: Sendable {
    private let core: ClientCore
    let inbox: ResultInbox
    private let taker = Locked<Task<Void, Never>?>(nil)

    init(_ core: ClientCore, limit: Int) {
        self.core = core
        inbox = ResultInbox(limit: max(1, limit))
    }

    deinit { cancel() }

    func submit(_ pushes: [(index: Int, push: Push)]) { Self.submit(pushes, to: inbox, core) }

    private static func submit(_ pushes: [(index: Int, push: Push)], to inbox: ResultInbox, _ core: ClientCore) {
        guard inbox.take(pushes.count) else { return }
        core.submit(pushes, to: inbox)
        // The cancellation has no effect on pushes that were submitted after it.
        if inbox.isCancelled { core.cancel(inbox) }
    }

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
}

/// Receives the results of a sequence of pushes, and counts the places for more pushes. It has one reader and one taker.
final class ResultInbox: Sendable {
    private struct State {
        let limit: Int
        var results: [PushResult] = []
        /// Pushes that were sent and whose results were not read.
        var unread = 0
        /// Whether the sequence has no more pushes.
        var isFinished = false
        var isCancelled = false
        var reader: CheckedContinuation<Void, Never>?
        var taker: CheckedContinuation<Void, Never>?

        var canRead: Bool { !results.isEmpty || unread == 0 && (isFinished || isCancelled) }
        var canTake: Bool { unread < limit || isCancelled }
    }

    private let state: Locked<State>

    /// - Parameter limit: the most pushes without a result that was read, at least 1.
    init(limit: Int) { state = Locked(State(limit: limit)) }

    /// Whether the reader's task was cancelled, or the reader has ended.
    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// The places for more pushes; 0 after a cancellation.
    var room: Int { state.withLock { $0.isCancelled ? 0 : $0.limit - $0.unread } }

    /// Takes places for pushes that are sent next. Returns false after a cancellation: they must not be sent.
    func take(_ count: Int) -> Bool {
        state.withLock { state in
            if !state.isCancelled { state.unread += count }
            return !state.isCancelled
        }
    }

    func deliver(_ result: PushResult) { change { $0.results.append(result) } }
    func cancel() { change { $0.isCancelled = true } }
    /// No more pushes follow.
    func finish() { change { $0.isFinished = true } }
    /// The reader has returned a result.
    func read() { change { $0.unread -= 1 } }

    /// Waits until there are results, and takes them. Returns none at the end.
    func receive() async -> [PushResult] {
        await wait(until: \.canRead, \.reader)
        return state.withLock { state in
            defer { state.results = [] }
            return state.results
        }
    }

    /// Waits until there is a place, or a cancellation.
    func waitForRoom() async { await wait(until: \.canTake, \.taker) }

    private func change(_ body: (inout State) -> Void) {
        let (reader, taker) = state.withLock { state in
            body(&state)
            return (state.canRead ? state.reader.take() : nil, state.canTake ? state.taker.take() : nil)
        }
        reader?.resume()
        taker?.resume()
    }

    private func wait(
        until isReady: KeyPath<State, Bool>, _ waiter: WritableKeyPath<State, CheckedContinuation<Void, Never>?>
    ) async {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if state[keyPath: isReady] { return true }
                state[keyPath: waiter] = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
