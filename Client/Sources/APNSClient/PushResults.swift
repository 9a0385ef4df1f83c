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
            feed.read()
            return result
        }

        /// Takes as many pushes from the source as there is room for, and sends them under one lock.
        private mutating func submit() {
            var batch: [(index: Int, push: Push)] = []
            let room = feed.room
            while !isExhausted, batch.count < room {
                if let push = source.next() {
                    batch.append((taken + batch.count, push))
                } else {
                    isExhausted = true
                    feed.finish()
                }
            }
            taken += batch.count
            if !batch.isEmpty { feed.submit(batch) }
        }
    }
}

@available(*, unavailable)
extension PushResults.Iterator: Sendable {}
