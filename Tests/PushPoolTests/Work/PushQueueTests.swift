import Harness
import Platform
import Testing

@testable import PushPool

@Suite("The queue that sessions share")
struct PushQueueTests {
    private let queue = QueueFixture()

    @Test func `it hands out in order, and never more than there are free streams`() {
        let taker = Taker(1, queue)
        push(1...5, to: queue)
        #expect(taker.take(2) == [1, 2])
        #expect(taker.take(0) == [])
        #expect(taker.take(10) == [3, 4, 5])
        #expect(taker.take(10) == [])
    }

    @Test func `the push that exceeds the bytes of a session is its last, and then another session is an alternative`() {
        let payload = notification(1).payload.count
        let (first, second) = (Taker(1, queue), Taker(2, queue))
        push(1...20, to: queue)
        #expect(first.take(10, bytes: 2 * payload + 1) == [1, 2, 3])
        #expect(first.take(10, bytes: 0) == [])
        #expect(second.take(10, bytes: 2 * payload) == [4, 5])
        _ = queue.withdraw()
        // Streams without bytes are no room.
        _ = first.take(10, bytes: 0)
        push(21...21, to: queue, avoiding: second.id)
        #expect(second.take(10) == [21])
    }

    @Test func `a push that comes while every session is full waits because of the streams`() {
        let taker = Taker(1, queue)
        push(1...2, to: queue)
        #expect(taker.take(2) == [1, 2])
        push(3...3, to: queue)
        let before = queue.figures.blocked(by: .streams)
        queue.now += .seconds(1)
        #expect(queue.figures.blocked(by: .streams) == before + .seconds(1))
        #expect(taker.take(2) == [3])
        let after = queue.figures
        #expect(after.blocked(by: .streams) > before)
        queue.now += .seconds(1)
        #expect(queue.figures == after)
    }

    @Test func `nothing is blocked once the pushes that waited were withdrawn by their numbers`() {
        let taker = Taker(1, queue)
        push(1...2, to: queue)
        #expect(taker.take(2) == [1, 2])
        push(3...4, to: queue)
        func blocked(in seconds: Int) -> [Duration] { queue.queue.figures(now: queue.now + .seconds(seconds)).blocked }
        #expect(queue.withdraw([3]) == [3])
        #expect(blocked(in: 10) != blocked(in: 0), "one still waits")
        #expect(queue.withdraw([4]) == [4])
        #expect(blocked(in: 10) == blocked(in: 0))
    }

    @Test func `withRoom sessions get equal shares of a large batch`() {
        let first = Taker(1, queue, free: 500)
        let second = Taker(2, queue, free: 500)
        push(1...200, to: queue)
        #expect(first.take(500).count == 100)
        #expect(second.take(500).count == 100)
    }

    @Test func `a session takes the notifications that another one left`() {
        let first = Taker(1, queue, free: 500)
        let second = Taker(2, queue, free: 10)
        push(1...200, to: queue)
        #expect(first.take(500).count == 100)
        #expect(second.take(10).count == 10)
        _ = first.wasRung
        #expect(first.take(400).count == 90)
    }

    @Test func `a session that could not take all rings one that sleeps withRoom`() {
        let first = Taker(1, queue, free: 500)
        let second = Taker(2, queue, free: 10)
        push(1...200, to: queue)
        _ = first.take(500)
        _ = first.wasRung
        _ = second.take(10)
        #expect(first.wasRung)
    }

    @Test func `only a sleeping session with free streams is woken, and once`() {
        let full = Taker(1, queue)
        let withRoom = Taker(2, queue, free: 100)
        push(1...20, to: queue)
        #expect(!full.wasRung)
        #expect(withRoom.wasRung)
        push(21...40, to: queue)
        #expect(!withRoom.wasRung)
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

    @Test func `a session without free streams is no alternative`() {
        let first = Taker(1, queue, free: 10)
        let second = Taker(2, queue)
        push(1...2, to: queue, avoiding: first.id)
        #expect(first.take(10) == [1, 2])
        #expect(second.take(10) == [])
    }

    @Test func `sessions take nothing after the sending deadline, and are woken when it moves`() {
        let taker = Taker(1, queue, free: 10)
        queue.allowSending(until: queue.now)
        push(1...2, to: queue)
        #expect(taker.take(10) == [])
        _ = taker.wasRung
        queue.allowSending(until: queue.now + .seconds(3600))
        #expect(taker.wasRung)
        #expect(taker.take(10) == [1, 2])
        queue.allowSending(until: queue.now)
        push(3...3, to: queue)
        queue.allowSending(until: nil)
        #expect(taker.take(10) == [3])
    }

    @Test func `a session wakes another one for a notification that avoids it`() {
        let first = Taker(1, queue, free: 10)
        let second = Taker(2, queue, free: 10)
        push(1...1, to: queue, avoiding: first.id)
        _ = second.wasRung
        #expect(first.take(10) == [])
        #expect(second.take(10) == [1])
    }

    @Test func `when the other session leaves, the last one is rung for what avoids it`() {
        let first = Taker(1, queue, free: 10)
        let second = Taker(2, queue, free: 10)
        push(1...1, to: queue, avoiding: first.id)
        #expect(first.take(10) == [])
        _ = first.wasRung
        queue.leave(second.id)
        #expect(first.wasRung)
        #expect(first.take(10) == [1])
    }

    @Test func `waiting notifications can be withdrawn, all or by id`() {
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

@Suite("The load that the sizer sees")
struct QueueLoadTests {
    private let queue = QueueFixture()

    @Test func `it is blocked while something waits and all sessions are full`() {
        let taker = Taker(1, queue, free: 2)
        push(1...2, to: queue)
        #expect(taker.take(2) == [1, 2])
        #expect(!queue.queue.wasBlocked)
        push(3...3, to: queue)
        #expect(queue.queue.wasBlocked)
        #expect(queue.look() == PushQueue.Load(wasBlocked: true, waiting: 1, free: 0))
        #expect(taker.take(1) == [3])
        // It was blocked when the last look began, and is no more.
        #expect(queue.look() == PushQueue.Load(wasBlocked: true, waiting: 0, free: 0))
        #expect(queue.look() == PushQueue.Load(wasBlocked: false, waiting: 0, free: 0))
        #expect(!queue.queue.wasBlocked)
    }

    @Test func `without a session it is not blocked but alone`() {
        push(1...3, to: queue)
        #expect(!queue.look().wasBlocked)
        #expect(!queue.queue.wasBlocked)
    }

    @Test func `a session that takes less than there is blocks it`() {
        push(1...3, to: queue)
        let taker = Taker(1, queue)
        #expect(taker.take(2) == [1, 2])
        #expect(queue.queue.wasBlocked)
        #expect(queue.look() == PushQueue.Load(wasBlocked: true, waiting: 1, free: 0))
    }
}

@Suite("The lock around the queue")
struct WorkQueueTests {
    private func hasRung(_ bell: WakeUp) -> Bool {
        var poller = Poller()
        poller.add(bell.descriptor, for: .read)
        poller.wait(until: .now)
        defer { bell.listen() }
        return poller.readiness(at: 0).contains(.read)
    }

    private func take(_ streams: Int, from work: WorkQueue, for session: SessionID) -> Int {
        let batch = Ring<PushPool.Notification>()
        _ = work.take(into: batch, room: Room(streams: streams), for: session, now: .now)
        return batch.count
    }

    @Test func `it rings a session for work, and the pool once when all sessions have become full`() {
        let (pool, session) = (WakeUp(), WakeUp())
        let work = WorkQueue(blocked: pool)
        work.queue.withLock { $0.join(SessionID(1), wakeUp: session) }
        #expect(take(2, from: work, for: SessionID(1)) == 0)
        push(1...2, to: work)
        #expect(hasRung(session) && !hasRung(pool))
        #expect(take(2, from: work, for: SessionID(1)) == 2)
        push(3...3, to: work)
        #expect(!hasRung(session) && hasRung(pool))
        push(4...4, to: work)
        #expect(!hasRung(pool))
        work.queue.withLock { _ = $0.look() }
        #expect(work.withdraw() == [3, 4])
    }

    @Test func `sending is over at the deadline, and a take after it is empty`() {
        let work = WorkQueue()
        work.queue.withLock { $0.join(SessionID(1), wakeUp: WakeUp()) }
        push(1...1, to: work)
        #expect(!work.isSendingOver)
        work.allowSending(until: .now)
        #expect(work.isSendingOver)
        #expect(take(2, from: work, for: SessionID(1)) == 0)
        work.allowSending(until: nil)
        #expect(!work.isSendingOver)
        #expect(take(2, from: work, for: SessionID(1)) == 1)
    }
}
