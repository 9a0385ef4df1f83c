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
        private let limit: Int
        private var isExhausted = false
        private var taken = 0
        /// Pushes whose results were not returned.
        private var outstanding = 0
        /// Results that were received and not returned, the oldest last.
        private var ready: [PushResult] = []

        init(_ source: Pushes.Iterator, _ client: APNSClient, limit: Int) {
            self.source = source
            feed = ResultFeed(client.core)
            self.client = client
            self.limit = limit
        }

        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> PushResult? {
            if ready.isEmpty {
                if Task.isCancelled { feed.cancel() }
                submit()
                if outstanding == 0 { return nil }
                ready = await feed.receive().reversed()
            }
            outstanding -= 1
            return ready.popLast()
        }

        /// Takes as many pushes from the source as there is room for.
        private mutating func submit() {
            guard !isExhausted, !feed.isCancelled else { return }
            var batch: [(index: Int, push: Push)] = []
            while outstanding + batch.count < limit {
                guard let push = source.next() else {
                    isExhausted = true
                    break
                }
                batch.append((taken + batch.count, push))
            }
            taken += batch.count
            outstanding += batch.count
            if !batch.isEmpty { feed.submit(batch) }
        }
    }
}

@available(*, unavailable)
extension PushResults.Iterator: Sendable {}
