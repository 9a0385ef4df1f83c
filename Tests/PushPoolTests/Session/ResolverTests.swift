import Glibc
import Harness
import Platform
import Synchronization
import Testing

@testable import PushPool

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
        let fixture = try PoolFixture(
            port: server.port, sessions: 4, resolver: NameResolver(thread: "apns names") { names.lookUp($0, $1) }
        ) {
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
        #expect(names.lookups == 1)
        // The name server still hangs: a close that waited for it would never return.
        _ = fixture.pool.close()
    }

    @Test func `once it answers, sessions come up`() throws {
        let names = SlowNames()
        let server = try FakeServer()
        let fixture = try PoolFixture(
            port: server.port, sessions: 2, resolver: NameResolver(thread: "apns names") { names.lookUp($0, $1) }
        ) {
            $0.host = "localhost"
            $0.dialTimeout = .milliseconds(200)
        }
        _ = fixture.waitForFailedDial()
        names.open()
        fixture.waitUntilOpened(2)
        fixture.push(10)
        fixture.waitForDeliveries(10)
    }

    @Test func `simultaneous questions share an answer`() throws {
        let names = SlowNames()
        let resolver = NameResolver(thread: "apns names") { names.lookUp($0, $1) }
        let answers = Collector<NameResolver.Answer>()
        for _ in 1...4 { resolver.ask("somewhere", port: 443, answers: answers.mailbox) }
        let forgotten = Collector<NameResolver.Answer>()
        resolver.ask("elsewhere", port: 443, answers: forgotten.mailbox)
        resolver.forget(forgotten.mailbox)
        names.open()
        answers.wait { $0.count == 4 }
        #expect(names.lookups == 1)
    }

    @Test func `every dial looks up the name`() throws {
        let asked = Atomic<Int>(0)
        let resolver = NameResolver(thread: "apns names") { _, port in
            asked.add(1, ordering: .relaxed)
            return Result { () throws(SocketError) in try SocketAddress.resolve(host: "127.0.0.1", port: port) }
        }
        for round in 1...5 {
            let answers = Collector<NameResolver.Answer>()
            resolver.ask("somewhere", port: 443, answers: answers.mailbox)
            answers.wait { $0.count == 1 }
            #expect(asked.load(ordering: .relaxed) == round)
        }
    }

    @Test func `a record that points at a dead host costs no dial, and is left alone from then on`() throws {
        let server = try FakeServer()
        let (dead, alive) = (try Listener(port: 0).port, server.port)
        // The addresses of a name with a dead IPv6 record.
        let resolver = NameResolver(thread: "apns names") { _, _ in
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
