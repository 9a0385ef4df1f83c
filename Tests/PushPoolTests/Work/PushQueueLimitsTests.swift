import Harness
import Platform
import Testing

@testable import PushPool

@Suite("The queue that sessions share, under limits")
struct PacedQueueTests {
    private let rateLimits = SharedRateLimits(pushesPerSecond: 2)
    private let queue: QueueFixture

    init() { queue = QueueFixture(rateLimits) }

    @Test func `a session takes what the limits admit, and learns when to ask again`() throws {
        let taker = Taker(1, queue, free: 10)
        push(1...3, to: queue)
        let (ids, again) = taker.takePaced(10)
        #expect(ids == [1])
        #expect(try #require(again) > queue.now + .milliseconds(300))
        let next = taker.takePaced(10)
        #expect(next.ids == [])
        #expect(next.again != nil)
    }

    @Test func `one session keeps the time for all, and pushes wake no session meanwhile`() {
        let takers = [Taker(1, queue, free: 10), Taker(2, queue, free: 10)]
        push(1...5, to: queue)
        #expect(!takers[0].wasRung && takers[1].wasRung)
        #expect(takers[1].take(10) == [1])
        // The wait is long: the other one takes the next.
        #expect(takers[0].wasRung)
        #expect(takers[0].takePaced(10).again != nil)
        #expect(takers[1].takePaced(10).again == nil)
        push(6...50, to: queue)
        #expect(!takers[0].wasRung && !takers[1].wasRung)
        // It goes: another must keep the time.
        queue.leave(takers[0].id)
        #expect(takers[1].wasRung)
        #expect(takers[1].takePaced(10).again != nil)
    }

    @Test func `a timekeeper that is full by then leaves it to another`() {
        let takers = [Taker(1, queue, free: 10), Taker(2, queue)]
        push(1...5, to: queue)
        #expect(takers[0].take(10) == [1])
        #expect(takers[0].takePaced(10).again != nil)
        _ = takers[1].takePaced(10)
        #expect(takers[0].takePaced(0).again == nil)
        #expect(takers[1].wasRung)
        #expect(takers[1].takePaced(10).again != nil)
    }

    @Test func `no session asks again when nothing waits`() {
        let taker = Taker(1, queue, free: 10)
        push(1...2, to: queue)
        #expect(taker.takePaced(10).again != nil)
        _ = queue.withdraw()
        #expect(taker.takePaced(10).again == nil)
    }

    @Test func `changed limits wake the session that waited for the old ones`() {
        let taker = Taker(1, queue, free: 10)
        push(1...3, to: queue)
        _ = taker.wasRung
        #expect(taker.takePaced(10).again != nil)
        rateLimits.change(pushesPerSecond: 0, bitsPerSecond: 0)
        queue.limitsChanged()
        #expect(taker.wasRung)
        #expect(taker.take(10) == [2, 3])
    }

    @Test func `a notification that avoids a session does not count against the limits there`() {
        let takers = [Taker(1, queue, free: 10), Taker(2, queue, free: 10)]
        push(1...1, to: queue, avoiding: takers[0].id)
        push(2...3, to: queue)
        #expect(takers[0].take(10) == [2])
        #expect(queue.count == 2)
        #expect(takers[1].takePaced(10).ids == [])
        #expect(queue.withdraw() == [1, 3])
    }
}

@Suite("The queue under the limit of its own pool")
struct BrakedQueueTests {
    private let queue = QueueFixture()

    /// Takes until nothing waits, asking at the returned times. Returns the time of each.
    private func takeAll(by taker: Taker) -> [(id: UInt64, at: Instant)] {
        var all: [(id: UInt64, at: Instant)] = []
        while true {
            let (ids, again) = taker.takePaced(1000)
            all += ids.map { ($0, taker.queue.now) }
            guard let again else { return all }
            taker.queue.now = again
        }
    }

    @Test func `a session takes what the pool's limit admits, and learns when to ask again`() throws {
        let taker = Taker(1, queue, free: 10)
        queue.limit(to: 1)
        push(1...3, to: queue)
        let (ids, again) = taker.takePaced(10)
        #expect(ids == [1])
        #expect(try #require(again) > queue.now + .milliseconds(900))
    }

    @Test func `no second exceeds the pool's limit`() {
        let taker = Taker(1, queue, free: 1000)
        queue.limit(to: 200)
        push(1...500, to: queue)
        let all = takeAll(by: taker)
        #expect(all.map(\.id) == Array(1...500))
        #expect(zip(all.dropFirst(200), all).allSatisfy { $0.at - $1.at >= .seconds(1) })
    }

    @Test func `the lower of both limits applies`() {
        for (brake, limit) in [(50, 100_000.0), (100_000, 50.0)] {
            let queue = QueueFixture(SharedRateLimits(pushesPerSecond: limit))
            let taker = Taker(1, queue, free: 1000)
            queue.limit(to: brake)
            push(1...70, to: queue)
            let all = takeAll(by: taker)
            #expect(all.map(\.id) == Array(1...70))
            #expect(zip(all.dropFirst(50), all).allSatisfy { $0.at - $1.at >= .seconds(1) })
        }
    }

    @Test func `a waiting session is woken when the pool's limit rises and when it ends`() {
        let taker = Taker(1, queue, free: 10)
        queue.limit(to: 1)
        push(1...9, to: queue)
        var (ids, again) = taker.takePaced(10)
        #expect(again != nil)
        for limit in [4, nil] {
            _ = taker.wasRung
            queue.limit(to: limit)
            #expect(taker.wasRung)
            let more = taker.takePaced(10)
            ids += more.ids
            again = more.again
        }
        #expect(ids == Array(1...9))
        #expect(again == nil)
    }

    @Test func `it knows how many were taken in a second`() {
        let takers = [Taker(1, queue), Taker(2, queue)]
        #expect(queue.queue.tally.rate(now: queue.now) == 0)
        push(1...50, to: queue)
        #expect(takers[0].take(20).count == 20)
        queue.now += .milliseconds(500)
        #expect(takers[1].take(20).count == 20)
        queue.now += .seconds(1)
        #expect(takers[0].take(20).count == 10)
        #expect(queue.queue.tally.rate(now: queue.now + .milliseconds(500)) == 40)
    }
}

/// Two sessions and their queue, in simulated time.
@Suite("Resends under a limit")
struct PacedResendTests {
    private static let rate = 2000
    /// The dispatcher claims half a second of work.
    private static let mostWaiting = rate / 2

    private let queue = QueueFixture(SharedRateLimits(pushesPerSecond: Double(rate)))

    @Test(arguments: [2, 3])
    func `no push waits for a session that is never woken`(sessions: Int) {
        let seed = UInt64.random(in: 1...1_000_000)
        var random = SeededGenerator(seed: seed)
        let start = queue.now
        let takers = (1...sessions).map { Taker(UInt64($0), queue, free: 1000) }
        var turns = [Instant](repeating: start, count: sessions)
        var retries: [(due: Instant, avoiding: SessionID)] = []
        var pushed: [UInt64: Instant] = [:]
        var (last, refill, taken, longest) = (UInt64(0), start, 0, Duration.zero)
        while queue.now < start + .seconds(20) {
            if refill <= queue.now {
                refill = queue.now + .milliseconds(50)
                // Due resends are claimed first, then new jobs.
                var batch: [PushPool.Notification] = []
                let room = Self.mostWaiting - queue.count
                while batch.count < room {
                    last += 1
                    pushed[last] = queue.now
                    let due = retries.firstIndex { $0.due <= queue.now }
                    batch.append(notification(last, avoiding: due.map { retries.remove(at: $0).avoiding }))
                }
                queue.push(&batch)
            }
            for (index, taker) in takers.enumerated() {
                if taker.wasRung { turns[index] = min(turns[index], queue.now) }
                guard turns[index] <= queue.now else { continue }
                let (ids, again) = taker.takePaced(1000)
                turns[index] = again ?? start + .seconds(3600)
                taken += ids.count
                for id in ids {
                    if let time = pushed.removeValue(forKey: id) { longest = max(longest, queue.now - time) }
                    // 503: it is due again after a second.
                    if Int.random(in: 0..<50, using: &random) == 0 { retries.append((queue.now + .seconds(1), taker.id)) }
                }
            }
            queue.now = max(queue.now, min(turns.min() ?? refill, refill, queue.now + .milliseconds(1)))
        }
        longest = pushed.values.reduce(longest) { max($0, queue.now - $1) }
        #expect(longest < .seconds(2), "seed \(seed)")
        #expect(taken > 19 * Self.rate, "seed \(seed)")
    }
}
