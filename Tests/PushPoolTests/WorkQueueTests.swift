@testable import PushPool
import Testing
import Threads

/// A session's view of a queue.
private struct Taker {
    let id: SessionID
    let wakeUp = WakeUp()
    let queue: WorkQueue

    init(_ number: UInt64, _ queue: WorkQueue, free: Int = 0) {
        id = SessionID(number)
        self.queue = queue
        queue.join(id, wakeUp: wakeUp)
        if free > 0 { _ = take(free) }
    }

    func take(_ free: Int) -> [UInt64] { takePaced(free).ids }

    /// And when it was told to ask again.
    func takePaced(_ free: Int, now: ContinuousClock.Instant = .now) -> (ids: [UInt64], again: ContinuousClock.Instant?) {
        let batch = Ring<PushPool.Notification>()
        let again = queue.take(into: batch, free: free, for: id, now: now)
        var ids: [UInt64] = []
        while let notification = batch.popFirst() { ids.append(notification.id) }
        return (ids, again)
    }

    /// Whether somebody has rung since the last look.
    var wasRung: Bool {
        var poller = Poller()
        poller.add(wakeUp.descriptor, for: .read)
        poller.wait(until: .now)
        defer { wakeUp.listen() }
        return poller.readiness(at: 0).contains(.read)
    }
}

private func push(_ ids: ClosedRange<UInt64>, to queue: WorkQueue, avoiding: SessionID? = nil) {
    var batch = ids.map { notification($0, avoiding: avoiding) }
    queue.push(&batch)
    #expect(batch.isEmpty)
}

@Suite("The queue that sessions share")
struct WorkQueueTests {
    private let queue = WorkQueue()

    @Test func `it hands out in order, and never more than there are free streams`() {
        let taker = Taker(1, queue)
        push(1...5, to: queue)
        #expect(taker.take(2) == [1, 2])
        #expect(taker.take(0) == [])
        #expect(taker.take(10) == [3, 4, 5])
        #expect(taker.take(10) == [])
    }

    @Test func `hungry sessions get equal shares of a large batch`() {
        let first = Taker(1, queue, free: 500)
        let second = Taker(2, queue, free: 500)
        push(1...200, to: queue)
        #expect(first.take(500).count == 100)
        #expect(second.take(500).count == 100)
    }

    @Test func `what one session leaves the other takes`() {
        let first = Taker(1, queue, free: 500)
        let second = Taker(2, queue, free: 10)
        push(1...200, to: queue)
        #expect(first.take(500).count == 100)
        #expect(second.take(10).count == 10)
        _ = first.wasRung
        #expect(first.take(400).count == 90)
    }

    @Test func `a session that could not take all rings one that sleeps hungry`() {
        let first = Taker(1, queue, free: 500)
        let second = Taker(2, queue, free: 10)
        push(1...200, to: queue)
        _ = first.take(500)
        _ = first.wasRung
        _ = second.take(10)
        #expect(first.wasRung)
    }

    @Test func `only who is hungry and asleep is rung, and once`() {
        let full = Taker(1, queue)
        let hungry = Taker(2, queue, free: 100)
        push(1...20, to: queue)
        #expect(!full.wasRung)
        #expect(hungry.wasRung)
        push(21...40, to: queue)
        #expect(!hungry.wasRung)
    }

    @Test func `few pushes wake one session, many wake all`() {
        let takers = [Taker(1, queue, free: 100), Taker(2, queue, free: 100)]
        push(1...3, to: queue)
        #expect(takers.count { $0.wasRung } == 1)
        for taker in takers { _ = taker.take(100) }
        push(4...100, to: queue)
        #expect(takers.count { $0.wasRung } == 2)
    }

    @Test func `single pushes go to one session after another`() {
        let takers = [Taker(1, queue, free: 100), Taker(2, queue, free: 100)]
        var rung: [Int] = []
        for id in 1...6 as ClosedRange<UInt64> {
            push(id...id, to: queue)
            for (place, taker) in takers.enumerated() where taker.wasRung {
                rung.append(place)
                #expect(taker.take(100) == [id])
            }
        }
        #expect(rung.count == 6)
        #expect(Set(rung) == [0, 1])
    }

    @Test func `a notification does not meet the session it avoids while there is another`() {
        let first = Taker(1, queue, free: 10)
        let second = Taker(2, queue, free: 10)
        push(1...2, to: queue, avoiding: first.id)
        push(3...3, to: queue)
        #expect(first.take(10) == [3])
        #expect(second.take(10) == [1, 2])
    }

    @Test func `a lone session takes what avoids it`() {
        let only = Taker(1, queue, free: 10)
        push(1...1, to: queue, avoiding: only.id)
        #expect(only.take(10) == [1])
    }

    @Test func `who cannot take an avoider wakes who can`() {
        let first = Taker(1, queue, free: 10)
        let second = Taker(2, queue, free: 10)
        push(1...1, to: queue, avoiding: first.id)
        _ = second.wasRung
        #expect(first.take(10) == [])
        #expect(second.take(10) == [1])
    }

    @Test func `when the other session leaves, the last one is rung for what avoids it`() {
        let first = Taker(1, queue, free: 10)
        let second = Taker(2, queue)
        push(1...1, to: queue, avoiding: first.id)
        #expect(first.take(10) == [])
        _ = first.wasRung
        queue.leave(second.id)
        #expect(first.wasRung)
        #expect(first.take(10) == [1])
    }

    @Test func `what nobody took can be withdrawn, all or by id`() {
        let taker = Taker(1, queue)
        push(1...6, to: queue, avoiding: SessionID(9))
        #expect(queue.withdraw([2, 5, 77]) == [2, 5])
        #expect(taker.take(1) == [1])
        #expect(queue.withdraw() == [3, 4, 6])
        #expect(queue.withdraw() == [])
        #expect(taker.take(10) == [])
    }

    @Test func `a session that has left gets nothing`() {
        let taker = Taker(1, queue, free: 10)
        queue.leave(taker.id)
        push(1...1, to: queue)
        #expect(taker.take(10) == [])
        #expect(queue.count == 1)
    }

    @Test func `a session that joins later finds what waited`() {
        push(1...3, to: queue)
        #expect(Taker(1, queue).take(10) == [1, 2, 3])
    }
}

@Suite("The queue that sessions share, under limits")
struct PacedQueueTests {
    private let pacer = SharedPacer(pushesPerSecond: 2)
    private let queue: WorkQueue

    init() { queue = WorkQueue(pacer: pacer) }

    @Test func `a session takes what the limits let go, and is told when to ask again`() throws {
        let taker = Taker(1, queue, free: 10)
        push(1...3, to: queue)
        let (ids, again) = taker.takePaced(10)
        #expect(ids == [1])
        #expect(try #require(again) > .now + .milliseconds(300))
        let next = taker.takePaced(10)
        #expect(next.ids == [])
        #expect(next.again != nil)
    }

    @Test func `one session keeps the time for all, and pushes ring nobody meanwhile`() {
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

    @Test func `nobody asks again when nothing waits`() {
        let taker = Taker(1, queue, free: 10)
        push(1...2, to: queue)
        #expect(taker.takePaced(10).again != nil)
        _ = queue.withdraw()
        #expect(taker.takePaced(10).again == nil)
    }

    @Test func `other limits ring whoever waited for the old ones`() {
        let taker = Taker(1, queue, free: 10)
        push(1...3, to: queue)
        _ = taker.wasRung
        #expect(taker.takePaced(10).again != nil)
        pacer.change(pushesPerSecond: 0, bitsPerSecond: 0)
        queue.limitsChanged()
        #expect(taker.wasRung)
        #expect(taker.take(10) == [2, 3])
    }

    @Test func `what avoids a session costs it nothing of the limits`() {
        let takers = [Taker(1, queue, free: 10), Taker(2, queue, free: 10)]
        push(1...1, to: queue, avoiding: takers[0].id)
        push(2...3, to: queue)
        #expect(takers[0].take(10) == [2])
        #expect(queue.count == 2)
        #expect(takers[1].takePaced(10).ids == [])
        #expect(queue.withdraw() == [1, 3])
    }
}

@Suite("The queue that sessions share, under a brake of its own")
struct BrakedQueueTests {
    private let queue = WorkQueue()

    /// What one session gets when it asks as often as it is told to, until nothing waits: when it asked for each, and when it had it.
    private func takeAll(by taker: Taker) -> [(id: UInt64, asked: ContinuousClock.Instant, had: ContinuousClock.Instant)] {
        var all: [(id: UInt64, asked: ContinuousClock.Instant, had: ContinuousClock.Instant)] = []
        var poller = Poller()
        while true {
            let asked = ContinuousClock.now
            let (ids, again) = taker.takePaced(1000)
            all += ids.map { ($0, asked, .now) }
            guard let again else { return all }
            poller.reset()
            poller.wait(until: again)
        }
    }

    @Test func `a session takes what the brake lets go, and is told when to ask again`() throws {
        let taker = Taker(1, queue, free: 10)
        queue.limit(to: 1)
        push(1...3, to: queue)
        let begin = ContinuousClock.now
        let (ids, again) = taker.takePaced(10)
        #expect(ids == [1])
        #expect(try #require(again) > begin + .milliseconds(900))
    }

    @Test func `no second has more than the brake lets go`() {
        let taker = Taker(1, queue, free: 1000)
        queue.limit(to: 200)
        push(1...500, to: queue)
        let all = takeAll(by: taker)
        #expect(all.map(\.id) == Array(1...500))
        #expect(zip(all.dropFirst(200), all).allSatisfy { $0.had - $1.asked >= .seconds(1) })
    }

    @Test func `the tighter of brake and limits holds`() {
        for (brake, limit) in [(50, 100_000.0), (100_000, 50.0)] {
            let queue = WorkQueue(pacer: SharedPacer(pushesPerSecond: limit))
            let taker = Taker(1, queue, free: 1000)
            queue.limit(to: brake)
            push(1...70, to: queue)
            let all = takeAll(by: taker)
            #expect(all.map(\.id) == Array(1...70))
            #expect(zip(all.dropFirst(50), all).allSatisfy { $0.had - $1.asked >= .seconds(1) })
        }
    }

    @Test func `who waits is rung when the brake lets more go, and when it is gone`() {
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
        let start = ContinuousClock.now
        let takers = [Taker(1, queue), Taker(2, queue)]
        #expect(queue.rate(now: start) == 0)
        push(1...50, to: queue)
        #expect(takers[0].takePaced(20, now: start).ids.count == 20)
        #expect(takers[1].takePaced(20, now: start + .milliseconds(500)).ids.count == 20)
        #expect(takers[0].takePaced(20, now: start + .milliseconds(1500)).ids.count == 10)
        #expect(queue.rate(now: start + .seconds(2)) == 40)
    }
}

@Suite("What the governor sees of the queue")
struct QueueLoadTests {
    private let bell = WakeUp()
    private let queue: WorkQueue

    init() { queue = WorkQueue(blocked: bell) }

    private var hasRung: Bool {
        var poller = Poller()
        poller.add(bell.descriptor, for: .read)
        poller.wait(until: .now)
        defer { bell.listen() }
        return poller.readiness(at: 0).contains(.read)
    }

    @Test func `it is blocked while something waits and all sessions are full`() {
        let taker = Taker(1, queue, free: 2)
        push(1...2, to: queue)
        #expect(taker.take(2) == [1, 2])
        #expect(!hasRung)
        push(3...3, to: queue)
        #expect(hasRung)
        #expect(queue.look() == WorkQueue.Load(wasBlocked: true, waiting: 1, free: 0))
        #expect(taker.take(1) == [3])
        // It was blocked when the last look began, and is no more.
        #expect(queue.look() == WorkQueue.Load(wasBlocked: true, waiting: 0, free: 0))
        #expect(queue.look() == WorkQueue.Load(wasBlocked: false, waiting: 0, free: 0))
        #expect(!hasRung)
    }

    @Test func `without a session it is not blocked but alone`() {
        push(1...3, to: queue)
        #expect(!queue.look().wasBlocked)
        #expect(!hasRung)
    }

    @Test func `a session that takes less than there is blocks it`() {
        push(1...3, to: queue)
        let taker = Taker(1, queue)
        #expect(taker.take(2) == [1, 2])
        #expect(hasRung)
        #expect(queue.look() == WorkQueue.Load(wasBlocked: true, waiting: 1, free: 0))
    }
}

@Suite("A ring")
struct RingTests {
    @Test func `it keeps order while it grows and wraps, and lets its elements go`() {
        final class Probe: Sendable {}
        weak var probe: Probe?
        do {
            let ring = Ring<(Int, Probe)>(capacity: 4)
            let element = Probe()
            probe = element
            var next = 0
            var expected = 0
            for round in 1...100 {
                for _ in 0..<round % 7 {
                    ring.append((next, element))
                    next += 1
                }
                for _ in 0..<round % 5 {
                    guard let first = ring.popFirst() else { break }
                    #expect(first.0 == expected)
                    expected += 1
                }
            }
            for round in 1...20 {
                var batch = (0..<round).map { (next + $0, element) }
                ring.append(contentsOf: &batch)
                next += round
                #expect(batch.isEmpty)
                for _ in 0..<round - 1 {
                    #expect(ring.popFirst()?.0 == expected)
                    expected += 1
                }
            }
            ring.prepend((-1, element))
            #expect(ring.popFirst()?.0 == -1)
            #expect(ring.count == next - expected)
            #expect(!ring.isEmpty)
        }
        #expect(probe == nil)
    }
}
