internal import Platform

/// The results of a sequence of pushes, in the order of their completion.
public struct PushResults<Pushes: Sequence>: AsyncSequence where Pushes.Element == Push {
    private let pushes: Pushes
    private let client: APNSClient
    private let limit: Int

    init(_ pushes: Pushes, _ client: APNSClient, limit: Int) {
        self.pushes = pushes
        self.client = client
        self.limit = limit
    }

    public func makeAsyncIterator() -> Iterator { Iterator(pushes.makeIterator(), client, limit: limit) }

    /// Takes pushes from the sequence and waits for results.
    public struct Iterator: AsyncIteratorProtocol {
        /// Keeps the client open.
        private let client: APNSClient
        private var source: Pushes.Iterator
        private let feed: ResultFeed
        private var isExhausted = false
        private var taken = 0
        /// Results that were received and not returned, the oldest last.
        private var ready: [PushResult] = []

        init(_ source: Pushes.Iterator, _ client: APNSClient, limit: Int) {
            self.source = source
            feed = ResultFeed(client.core, limit: limit)
            self.client = client
        }

        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> PushResult? {
            if ready.isEmpty {
                if Task.isCancelled { feed.cancel() }
                submit()
                ready = await feed.receive().reversed()
            }
            guard let result = ready.popLast() else { return nil }
            feed.inbox.read()
            return result
        }

        /// Takes as many pushes from the source as there is room for, and sends them under one lock.
        private mutating func submit() {
            var batch: [(index: Int, push: Push)] = []
            let room = feed.inbox.room
            while !isExhausted, batch.count < room {
                if let push = source.next() {
                    batch.append((taken + batch.count, push))
                } else {
                    isExhausted = true
                    feed.inbox.finish()
                }
            }
            taken += batch.count
            if !batch.isEmpty { feed.submit(batch) }
        }
    }
}

@available(*, unavailable)
extension PushResults.Iterator: Sendable {}

/// The results of an asynchronous sequence of pushes, in the order of their completion.
///
/// A result is returned while the sequence still waits for its next push. An error of the sequence follows the results of the
/// pushes before it.
public struct AsyncPushResults<Pushes: AsyncSequence & Sendable>: AsyncSequence, Sendable where Pushes.Element == Push {
    private let pushes: Pushes
    private let client: APNSClient
    private let limit: Int

    init(_ pushes: Pushes, _ client: APNSClient, limit: Int) {
        self.pushes = pushes
        self.client = client
        self.limit = limit
    }

    public func makeAsyncIterator() -> Iterator { Iterator(pushes, client, limit: limit) }

    /// Waits for results, while a task takes pushes from the sequence.
    public struct Iterator: AsyncIteratorProtocol {
        /// The error of the sequence, which its task writes.
        private final class Ending: Sendable {
            let error = Locked<Pushes.Failure?>(nil)
        }

        /// Keeps the client open.
        private let client: APNSClient
        /// `nil` once the task takes its pushes.
        private var pushes: Pushes?
        private let feed: ResultFeed
        private let ending = Ending()
        /// Results that were received and not returned, the oldest last.
        private var ready: [PushResult] = []

        init(_ pushes: Pushes, _ client: APNSClient, limit: Int) {
            self.pushes = pushes
            feed = ResultFeed(client.core, limit: limit)
            self.client = client
        }

        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(Pushes.Failure) -> PushResult? {
            if ready.isEmpty {
                if Task.isCancelled { feed.cancel() }
                if let pushes = pushes.take() {
                    feed.take(from: pushes) { [ending] error in ending.error.withLock { $0 = error } }
                }
                ready = await feed.receive().reversed()
            }
            guard let result = ready.popLast() else {
                if let error = ending.error.withLock({ $0.take() }) { throw error }
                return nil
            }
            feed.inbox.read()
            return result
        }
    }
}

@available(*, unavailable)
extension AsyncPushResults.Iterator: Sendable {}
