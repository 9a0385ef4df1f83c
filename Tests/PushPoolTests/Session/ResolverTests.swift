import Clocks
import Glibc
import Sockets
import Synchronization
import Testing
import Threads

@testable import PushPool

/// A name server that answers on demand.
private final class SlowNames: Sendable {
    let lookups = Atomic<Int>(0)
    private let isOpen = Atomic<Bool>(false)
    private let gate = WakeUp()

    func lookUp(_ host: String, _ port: Int) -> Resolver.Answer {
        lookups.add(1, ordering: .relaxed)
        var poller = Poller()
        while !isOpen.load(ordering: .acquiring) {
            poller.reset()
            poller.add(gate.descriptor, for: .read)
            poller.wait(until: nil)
        }
        return Result { () throws(SocketError) in try SocketAddress.resolve(host: "127.0.0.1", port: port) }
    }

    /// From now on it answers at once.
    func open() {
        isOpen.store(true, ordering: .releasing)
        gate.ring()
    }
}

/// Threads of this process by name.
private func threads(named name: String) -> Int {
    guard let folder = opendir("/proc/self/task") else { return 0 }
    defer { closedir(folder) }
    var count = 0
    while let entry = readdir(folder) {
        let id = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        guard let file = fopen("/proc/self/task/\(id)/comm", "r") else { continue }
        defer { fclose(file) }
        var text = [UInt8](repeating: 0, count: 32)
        let length = fread(&text, 1, text.count, file)
        if String(decoding: text[..<length].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self) == name { count += 1 }
    }
    return count
}

@Suite("Looking names up", .serialized)
struct ResolverTests {
    @Test func `a name server that hangs blocks no dial beyond its timeout, and costs one thread`() throws {
        let names = SlowNames()
        defer { names.open() }
        let server = try FakeServer()
        let before = threads(named: "apns names")
        let fixture = try PoolFixture(port: server.port, sessions: 4, resolver: Resolver { names.lookUp($0, $1) }) {
            $0.host = "localhost"
            $0.dialTimeout = .milliseconds(100)
            $0.dialBackoff = Backoff(first: .milliseconds(1), most: .milliseconds(1))
        }
        fixture.events.wait { $0.count { if case .dialFailed = $0 { true } else { false } } >= 12 }
        for case .dialFailed(_, let address, let fault, _) in fixture.events.all {
            #expect(address == "localhost:\(server.port)")
            #expect(fault == .dial("looking up localhost: timed out", isCredential: false))
        }
        #expect(threads(named: "apns names") <= before + 1)
        #expect(names.lookups.load(ordering: .relaxed) == 1)
        // The name server still hangs: a close that waited for it would never return.
        _ = fixture.pool.close()
    }

    @Test func `once it answers, sessions come up`() throws {
        let names = SlowNames()
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port, sessions: 2, resolver: Resolver { names.lookUp($0, $1) }) {
            $0.host = "localhost"
            $0.dialTimeout = .milliseconds(200)
        }
        fixture.events.wait { $0.contains { if case .dialFailed = $0 { true } else { false } } }
        names.open()
        fixture.waitUntilOpened(2)
        fixture.push(10)
        fixture.waitForDeliveries(10)
    }

    @Test func `simultaneous questions share an answer`() throws {
        let names = SlowNames()
        let resolver = Resolver { names.lookUp($0, $1) }
        let answers = Collector<Resolver.Answer>()
        for session in 1...5 { resolver.ask("somewhere", port: 443, for: SessionID(UInt64(session)), answers: answers.mailbox) }
        resolver.forget(SessionID(5))
        names.open()
        answers.wait { $0.count == 4 }
        #expect(names.lookups.load(ordering: .relaxed) == 1)
    }

    @Test func `every dial looks up the name`() throws {
        let asked = Atomic<Int>(0)
        let resolver = Resolver { _, port in
            asked.add(1, ordering: .relaxed)
            return Result { () throws(SocketError) in try SocketAddress.resolve(host: "127.0.0.1", port: port) }
        }
        for round in 1...5 {
            let answers = Collector<Resolver.Answer>()
            resolver.ask("somewhere", port: 443, for: SessionID(UInt64(round)), answers: answers.mailbox)
            answers.wait { $0.count == 1 }
            #expect(asked.load(ordering: .relaxed) == round)
        }
    }

    @Test func `a record that points at a dead host costs no dial, and is left alone from then on`() throws {
        let server = try FakeServer()
        let (dead, alive) = (try Listener(port: 0).port, server.port)
        // The addresses of a name with a dead IPv6 record.
        let resolver = Resolver { _, _ in
            Result { () throws(SocketError) in
                try SocketAddress.resolve(host: "::1", port: dead) + SocketAddress.resolve(host: "127.0.0.1", port: alive)
            }
        }
        let fixture = try PoolFixture(port: alive, sessions: 8, resolver: resolver) { $0.host = "localhost" }
        fixture.waitUntilOpened(8)
        for event in fixture.events.drain() {
            guard case .opened(_, let address, _) = event else {
                Issue.record("\(event)")
                continue
            }
            #expect(address == "127.0.0.1:\(alive)")
        }
    }
}
