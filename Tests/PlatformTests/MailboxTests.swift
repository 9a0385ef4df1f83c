import Glibc
import Testing

@testable import Platform

@Suite("A mailbox")
struct MailboxTests {
    @Test func `hands over in order, and all at once`() {
        let mailbox = Mailbox<Int>()
        var batch = [1, 2, 3]
        mailbox.send(contentsOf: &batch)
        mailbox.send(4)
        #expect(batch.isEmpty)
        #expect(mailbox.drain() == [1, 2, 3, 4])
        #expect(mailbox.drain() == [])
    }

    @Test func `wakes the thread that sleeps on it, once for all that waits`() {
        let mailbox = Mailbox<Int>()
        mailbox.send(1)
        mailbox.send(2)
        #expect(isReadable(mailbox.wakeDescriptor))
        _ = mailbox.drain()
        #expect(!isReadable(mailbox.wakeDescriptor))
        mailbox.send(3)
        #expect(isReadable(mailbox.wakeDescriptor))
    }

    @Test func `loses nothing between threads that send at once`() throws {
        let mailbox = Mailbox<Int>()
        let senders = 4
        let each = 20_000
        let threads = try (0..<senders).map { number in
            try JoinOnce(name: "sender \(number)") {
                var batch: [Int] = []
                for value in 0..<each {
                    batch.append(number * each + value)
                    if value % 7 == number { mailbox.send(contentsOf: &batch) }
                }
                mailbox.send(contentsOf: &batch)
            }
        }
        var seen = Array(repeating: -1, count: senders)
        var received = 0
        var poller = Poller()
        let limit = Instant.now + .seconds(30)
        while received < senders * each && Instant.now < limit {
            poller.reset()
            poller.add(mailbox.wakeDescriptor, for: .read)
            poller.wait(until: limit)
            for value in mailbox.drain() {
                #expect(value % each > seen[value / each], "out of order")
                seen[value / each] = value % each
                received += 1
            }
        }
        for thread in threads { thread.join() }
        #expect(received == senders * each)
    }

    private func isReadable(_ descriptor: CInt) -> Bool {
        var poller = Poller()
        let place = poller.add(descriptor, for: .read)
        poller.wait(until: .now)
        return poller.readiness(at: place).contains(.read)
    }
}

@Suite("A poller")
struct PollerTests {
    @Test func `returns at its deadline when nothing happens`() {
        let wakeUp = WakeUp()
        var poller = Poller()
        let place = poller.add(wakeUp.descriptor, for: .read)
        let start = Instant.now
        poller.wait(until: start + .milliseconds(20))
        #expect(Instant.now - start >= .milliseconds(20))
        #expect(poller.readiness(at: place).isEmpty)
    }

    @Test func `tells which descriptor woke it`() {
        let quiet = WakeUp()
        let rung = WakeUp()
        rung.ring()
        var poller = Poller()
        let first = poller.add(quiet.descriptor, for: .read)
        let second = poller.add(rung.descriptor, for: .read)
        poller.wait(until: nil)
        #expect(poller.readiness(at: first).isEmpty)
        #expect(poller.readiness(at: second) == .read)
    }
}

@Suite("A locked value")
struct LockedTests {
    @Test func `is changed by one thread at a time`() throws {
        let count = Locked(0)
        let threads = try (0..<3).map { _ in
            try JoinOnce(name: "counter") {
                for _ in 0..<50_000 { count.withLock { $0 += 1 } }
            }
        }
        for thread in threads { thread.join() }
        #expect(count.withLock { $0 } == 150_000)
    }
}

@Suite("A thread that several callers may join")
struct JoinOnceTests {
    @Test func `is left at the limit of the join, and can be joined later`() throws {
        let (gate, hasEnded) = (WakeUp(), Locked(false))
        let thread = try JoinOnce(name: "hangs") {
            var poller = Poller()
            poller.add(gate.descriptor, for: .read)
            poller.wait(until: .now + .seconds(60))
            hasEnded.withLock { $0 = true }
        }
        thread.join(atMost: .milliseconds(1))
        #expect(!hasEnded.withLock { $0 } && !thread.isJoined)
        gate.ring()
        thread.join(atMost: .seconds(60))
        #expect(hasEnded.withLock { $0 } && thread.isJoined)
    }
}

@Suite("A thread that cannot be had")
struct ThreadFailureTests {
    @Test func `is an error that says which and why, and its body is let go`() {
        final class Load: Sendable {}
        var load: Load? = Load()
        weak let watch = load
        #expect(throws: ThreadError(name: "vast", code: EAGAIN)) {
            // No address space has room for that stack, which pthread_create(3) reports like any other lack.
            try OwnedThread(name: "vast", stackBytes: 1 << 56) { [load] in withExtendedLifetime(load) {} }.join()
        }
        load = nil
        #expect(watch == nil)
        let text = ThreadError(name: "vast", code: EAGAIN).description
        #expect(text.hasPrefix("no thread for \"vast\": Resource temporarily unavailable (a limit of threads"))
    }
}

@Suite("Descriptors that must stay free")
struct SpareDescriptorTests {
    private var limit: Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return Int(limit.rlim_cur)
    }

    @Test func `are the unused ones below the limit`() {
        #expect(WakeUp.ifAvailable(sparing: 8) != nil)
        #expect(WakeUp.ifAvailable(sparing: limit) == nil)
    }

    @Test func `are searched for no further than needed, whatever the limit is`() {
        var probed = 0
        let numbers = sequence(first: CInt(0)) { number in
            probed += 1
            return number < 1000 ? number + 1 : nil
        }
        #expect(WakeUp.hasFree(8, among: numbers) { $0 >= 20 })
        #expect(probed < 30)
        #expect(!WakeUp.hasFree(8, among: 0..<27) { $0 >= 20 })
        #expect(WakeUp.hasFree(0, among: 0..<0) { _ in false })
    }

    @Test func `are counted and not taken, for another thread may need the last one at this moment`() throws {
        let (isOver, failures) = (Locked(false), Locked(0))
        let limit = limit
        let other = try OwnedThread(name: "opens") {
            while !isOver.withLock({ $0 }) {
                let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
                if descriptor < 0 { failures.withLock { $0 += 1 } } else { close(descriptor) }
            }
        }
        for _ in 0..<50 { #expect(WakeUp.ifAvailable(sparing: limit) == nil) }
        isOver.withLock { $0 = true }
        other.join()
        #expect(failures.withLock { $0 } == 0)
    }
}
