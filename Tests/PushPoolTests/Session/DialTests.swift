import Platform
import Synchronization
import Testing

@testable import PushPool

@Suite("Dialling")
struct DialTests {
    @Test func `GOAWAY in the place of SETTINGS is a failed dial with its reason`() throws {
        let server = try FakeServer([.init(goAwayFirst: #"{"reason":"BadCertificate"}"#)])
        let fixture = try PoolFixture(port: server.port)
        #expect(fixture.waitForFailedDial()?.fault == .goAway(code: 0, reason: "BadCertificate"))
    }

    @Test func `a server without SETTINGS does not keep anybody waiting`() throws {
        let server = try FakeServer([.init(sendsSettings: false)])
        let fixture = try PoolFixture(port: server.port) { $0.dialTimeout = .seconds(1) }
        #expect(fixture.waitForFailedDial()?.fault == .dial("HTTP/2 SETTINGS: timed out", isCredential: false))
    }

    @Test func `no process listens`() throws {
        let port = try Listener(port: 0).port
        let fixture = try PoolFixture(port: port)
        #expect(fixture.waitForFailedDial()?.fault == .dial("connect: Connection refused", isCredential: false))
    }

    @Test func `a socket that never speaks TLS ends with the dial's deadline`() throws {
        let listener = try Listener(port: 0)
        let fixture = try PoolFixture(port: listener.port) { $0.dialTimeout = .milliseconds(200) }
        #expect(fixture.waitForFailedDial()?.fault == .dial("TLS handshake: timed out", isCredential: false))
        _ = listener.port
    }

    @Test func `an unknown root is a fault of its own kind`() throws {
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port) { $0.extraRootsPath = nil }
        guard case .untrusted(let text) = fixture.waitForFailedDial()?.fault else {
            Issue.record("\(fixture.events.all)")
            return
        }
        #expect(text.contains("not trusted"))
    }

    @Test func `a host that does not exist`() throws {
        let fixture = try PoolFixture(port: 443) { $0.host = "nowhere.invalid" }
        guard case .dial(let text, isCredential: false) = fixture.waitForFailedDial()?.fault else {
            Issue.record("\(fixture.events.all)")
            return
        }
        #expect(text.contains("nowhere.invalid"))
    }

    @Test func `after a failure dials come one by one with waits in between`() throws {
        let server = try FakeServer([.init(goAwayFirst: ""), .init(goAwayFirst: ""), .init()])
        let fixture = try PoolFixture(port: server.port, sessions: 2)
        fixture.waitUntilOpened(2)
        let failures = fixture.events.all.filter { if case .dialFailed = $0 { true } else { false } }
        #expect(failures.count == 2)
        fixture.push(10)
        fixture.waitForDeliveries(10)
    }

    @Test func `closing the pool does not wait for a dial`() throws {
        let listener = try Listener(port: 0)
        let fixture = try PoolFixture(port: listener.port) { $0.dialTimeout = .seconds(86_400) }
        _ = fixture.pool.close()
        #expect(fixture.events.drain().isEmpty, "the dial was abandoned, it did not fail")
        _ = listener.port
    }

    @Test func `every address gets half of what is left of the time, the last one all`() {
        let now = Instant.now
        #expect(Dial.deadline(of: now + .seconds(10), isLast: false, now: now) == now + .seconds(5))
        #expect(Dial.deadline(of: now + .seconds(10), isLast: true, now: now) == now + .seconds(10))
    }
}

@Suite("Which address a dial goes to")
struct AddressBookTests {
    private let a = try! SocketAddress(unixPath: "/a")
    private let b = try! SocketAddress(unixPath: "/b")
    private let c = try! SocketAddress(unixPath: "/c")
    private let now = Instant.now

    @Test func `sessions spread over distinct addresses`() {
        var book = AddressBook()
        let chosen = (0..<6).compactMap { _ in book.choose(from: [a, b, c], now: now) }
        #expect(Set(chosen.prefix(3)).count == 3)
        #expect(Set(chosen.suffix(3)).count == 3)
    }

    @Test func `a released address is the first choice again`() {
        var book = AddressBook()
        for _ in 0..<3 { _ = book.choose(from: [a, b, c], now: now) }
        book.release(b)
        #expect(book.choose(from: [a, b, c], now: now) == b)
    }

    @Test func `a bad address is left alone for a minute, as long as there is another`() {
        var book = AddressBook()
        book.failed(a, now: now)
        for _ in 0..<5 { #expect(book.choose(from: [a, b], now: now) == b) }
        #expect(book.choose(from: [a], now: now) == a)
        book.release(a)
        #expect(book.choose(from: [a, b], now: now + .seconds(61)) == a)
    }

    @Test func `of no address nothing is chosen`() {
        var book = AddressBook()
        #expect(book.choose(from: [], now: now) == nil)
    }
}
