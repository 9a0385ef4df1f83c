import Platform
import Testing

@testable import PushPool

private let start = Instant.now

/// Returns the time this many minutes after the start of a test, by both clocks.
private func minute(_ count: Double) -> Moment {
    Moment(now: start + .seconds(count * 60), unixTime: 1_700_000_000 + Int64(count * 60))
}

@Suite("A sealed provider token")
struct TokenSealTests {
    private let text = Array("a secret".utf8)

    @Test func `its key is that of RFC 5869, test case 3`() {
        let key = TokenSeal.derive([UInt8](repeating: 0x0b, count: 22), for: [])
        #expect(key.prefix(8) == [0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f])
        #expect(key.suffix(4) == [0x3c, 0x73, 0x8d, 0x2d] && key.count == 32)
    }

    @Test func `only an owner of the key opens it, and no changed byte passes`() throws {
        let seal = try #require(try signingKey().seal())
        let sealed = try #require(seal.seal(text))
        #expect(sealed.count == text.count + 28)
        #expect(try signingKey().seal()?.open(sealed) == text)
        #expect(try signingKey("ABCDE12346").seal()?.open(sealed) == nil, "another key id")
        #expect(TokenSeal(secret: [UInt8](repeating: 1, count: 32), name: "x").open(sealed) == nil)
        for place in sealed.indices {
            var changed = sealed
            changed[place] ^= 1
            #expect(seal.open(changed) == nil, "byte \(place)")
        }
        for count in 0..<sealed.count { #expect(seal.open(Array(sealed[..<count])) == nil) }
        #expect(seal.seal(text) != sealed, "each nonce is new")
    }
}

@Suite("The decisions about a provider token")
struct TokenMachineTests {
    private var machine: TokenMachine

    init() throws { machine = TokenMachine(try signingKey(), timeout: .seconds(2)) }

    /// The text of a token of another process.
    private func stored(_ issuedAt: Int64) throws -> [UInt8] {
        let key = try signingKey()
        let token = ProviderToken(signedBy: key, issuedAt: issuedAt, generation: 1)
        return SavedToken(bytes: try #require(token).bytes, issuedAt: issuedAt).text
    }

    private mutating func mint(at moment: Moment) {
        let isMinted = machine.mint(at: moment)
        #expect(isMinted)
    }

    @Test mutating func `a stored token is used if it is newer than the own one, and its age counts`() throws {
        #expect(machine.isDue(forNewSession: false, now: start))
        machine.found(try stored(1_700_000_000 - 600), at: minute(0))
        #expect(machine.token?.generation == 1)
        #expect(machine.schedule.mintedAt == start - .seconds(600))
        machine.found(try stored(1_700_000_000 - 700), at: minute(0))
        #expect(machine.token?.generation == 1, "an older one")
        machine.found(Array("text".utf8), at: minute(0))
        machine.found(try stored(1_700_000_000 - 500), at: minute(0))
        #expect(machine.token?.generation == 2)
        #expect(machine.takeNews().count == 2)
        #expect(!machine.isDue(forNewSession: true, now: start))
    }

    @Test mutating func `a refused token is due at once, and refused only once`() {
        mint(at: minute(0))
        #expect(machine.isStale(1))
        let first = machine.refused(1, at: minute(5))
        #expect(first && machine.isRefused && machine.isDue(forNewSession: false, now: minute(5).now))
        mint(at: minute(5))
        #expect(!machine.isRefused && !machine.isStale(1))
        let old = machine.refused(1, at: minute(6))
        let second = machine.refused(2, at: minute(6))
        #expect(!old && !second, "within 20 minutes of the last replacement")
    }

    @Test mutating func `too many updates keep the token for 20 minutes, whatever other machines have`() throws {
        mint(at: minute(0))
        let news = (0..<2).map { machine.updatesRefused(at: minute(50 + Double($0))) }
        #expect(news == [true, false])
        #expect(!machine.isDue(forNewSession: true, now: minute(60).now))
        let saved = try #require(SavedToken(text: try stored(1_700_003_300)))
        let isUsed = [60.0, 71].map { machine.received(saved, age: .seconds(60), at: minute($0)) }
        #expect(isUsed == [false, true])
    }

    @Test mutating func `an error of the file is reported once`() {
        machine.complain("no space")
        machine.complain("no folder")
        #expect(machine.takeNews() == [.notKept(key: "ABCDE12345", "no space")])
        #expect(machine.takeNews() == [])
    }
}

@Suite("A provider token between machines")
struct TokenSharingTests {
    private let exchange = ProviderTokenExchange()

    private func source(timeout: Duration = .seconds(60)) throws -> ProviderTokenSource {
        let source = ProviderTokenSource(try signingKey(), file: nil, timeout: timeout)
        source.share(through: exchange)
        return source
    }

    /// Gives every request this reply until `body` returns.
    private func answering<Value>(_ reply: ProviderTokenExchange.Reply, _ body: () -> Value) throws -> Value {
        let exchange = exchange
        let stop = Locked(false)
        let thread = try OwnedThread(name: "store") {
            var poller = Poller()
            while !stop.withLock({ $0 }) {
                for request in exchange.requests() { exchange.received(reply, to: request, sentAt: .now) }
                poller.reset()
                poller.add(exchange.wanted.descriptor, for: .read)
                poller.wait(until: nil)
                exchange.wanted.listen()
            }
        }
        let value = body()
        stop.withLock { $0 = true }
        exchange.wanted.ring()
        thread.join()
        return value
    }

    /// A sealed token that another machine has minted.
    private func sealed(_ issuedAt: Int64) throws -> (reply: [UInt8], token: [UInt8]) {
        let key = try signingKey()
        let token = try #require(ProviderToken(signedBy: key, issuedAt: issuedAt, generation: 1))
        let saved = SavedToken(bytes: token.bytes, issuedAt: issuedAt)
        let seal = try #require(key.seal())
        return (try #require(seal.seal(saved.text)), token.bytes)
    }

    @Test func `a process uses the token of another machine, whatever the clock of that machine shows`() throws {
        let source = try source()
        // Five minutes ahead.
        let (reply, token) = try sealed(Moment().unixTime + 300)
        let found = try answering(.token(sealed: reply, age: .seconds(600))) { source.token(forNewSession: true) }
        #expect(found?.bytes == token)
        #expect(source.takeNews().map { if case .found = $0 { true } else { false } } == [true])
        #expect(source.request() == nil, "the other machine has shared it")
        let age = try #require(source.age(now: .now))
        #expect(age >= .seconds(600))
    }

    @Test func `with permission it mints one token and offers it, sealed`() throws {
        let source = try source()
        let token = try #require(try answering(.mint) { source.token(forNewSession: true) })
        #expect(source.takeNews().contains(.minted(key: "ABCDE12345")))
        let request = try #require(source.request())
        #expect(request.oldest == nil, "nothing is due")
        let offer = try #require(request.offer)
        let seal = try #require(try signingKey().seal())
        let text = try #require(seal.open(offer.sealed))
        #expect(SavedToken(text: text)?.bytes == token.bytes)
        #expect(!offer.sealed.containsSequence(token.bytes.prefix(16)))
        source.received(.token(sealed: offer.sealed, age: .zero), sentAt: .now)
        #expect(source.request() == nil)
    }

    @Test func `a permission that is too old mints nothing`() throws {
        let source = try source()
        source.received(.mint, sentAt: .now - .seconds(4))
        #expect(source.takeNews() == [])
    }

    @Test func `without a reply it keeps its own token, and waits no more for a while`() throws {
        let source = try source(timeout: .milliseconds(1))
        #expect(source.token(forNewSession: true) != nil)
        #expect(source.takeNews().contains(.minted(key: "ABCDE12345")))
    }

    @Test func `an exchange that fails ends the wait`() throws {
        let source = try source(timeout: .seconds(3600))
        source.exchangeFailed()
        #expect(source.token(forNewSession: true) != nil)
    }

    @Test func `a usable token serves while other machines are asked`() throws {
        let source = try source(timeout: .seconds(3600))
        source.exchangeFailed()
        let token = try #require(source.token(forNewSession: true, at: minute(0)))
        source.received(.none, sentAt: .now)
        for isNew in [true, false] { #expect(source.token(forNewSession: isNew, at: minute(51)) == token) }
        #expect(source.request(at: minute(51))?.oldest == .seconds(1800))
        source.received(.mint, sentAt: .now, at: minute(51))
        #expect(source.token(forNewSession: false, at: minute(51))?.generation == 2)
    }

    @Test func `a token of 30 minutes is asked for before a session needs it`() throws {
        let source = try source()
        source.exchangeFailed()
        let token = try #require(source.token(forNewSession: true, at: minute(0)))
        let first = try #require(source.request(at: minute(1)))
        #expect(first.oldest == nil)
        let offer = try #require(first.offer)
        source.received(.token(sealed: offer.sealed, age: .seconds(60)), sentAt: .now, at: minute(1))
        #expect(source.request(at: minute(29)) == nil)
        #expect(source.request(at: minute(31)) == .init(name: first.name, oldest: .seconds(1800)))
        #expect(source.token(forNewSession: false, at: minute(31)) == token)
    }

    @Test func `a token that APNs calls expired is replaced by a newer one of another machine`() throws {
        let source = try source()
        source.exchangeFailed()
        let token = try #require(source.token(forNewSession: true, at: minute(0)))
        source.received(.none, sentAt: .now)
        #expect(source.renew(after: 1, at: minute(10)) == 2)
        #expect(source.renew(after: 1, at: minute(10)) == 2, "another pool received the same response")
        let request = try #require(source.request(at: minute(10)))
        #expect(request.refused != nil && request.offer == nil)
        let (reply, other) = try sealed(1_700_000_500)
        source.received(.token(sealed: reply, age: .seconds(30)), sentAt: .now, at: minute(10))
        #expect(source.token(forNewSession: true, at: minute(10))?.bytes == other && other != token.bytes)
        #expect(source.renew(after: 2, at: minute(11)) == nil, "only once in 20 minutes")
    }

    @Test func `the same token again means that there is no newer one`() throws {
        let source = try source()
        source.exchangeFailed()
        let token = try #require(source.token(forNewSession: true, at: minute(0)))
        source.received(.none, sentAt: .now)
        let offer = try #require(source.request(at: minute(0))?.offer)
        _ = source.renew(after: 1, at: minute(10))
        source.received(.token(sealed: offer.sealed, age: .seconds(600)), sentAt: .now, at: minute(10))
        #expect(source.token(forNewSession: true, at: minute(10)) == token)
        #expect(source.renew(after: 1, at: minute(11)) == nil)
    }

    @Test func `a damaged token is not used`() throws {
        let source = try source(timeout: .seconds(3600))
        let own = try answering(.token(sealed: [1, 2, 3], age: .zero)) { source.token(forNewSession: true) }
        #expect(own != nil)
        #expect(source.takeNews().contains(.minted(key: "ABCDE12345")))
    }

    @Test func `an unanswered request leaves the process alone for half a minute`() {
        var sharing = TokenSharing(timeout: .seconds(2))
        let answers = [0, 1, 2, 31, 33].map { sharing.ask(now: start + .seconds($0)) }
        #expect(answers == [.asked, .waiting, .alone, .alone, .asked])
        sharing.failed(now: start + .seconds(34))
        let after = sharing.ask(now: start + .seconds(35))
        sharing.replied()
        let restored = sharing.ask(now: start + .seconds(36))
        #expect(after == .alone && restored == .asked)
    }
}

extension [UInt8] {
    fileprivate func containsSequence(_ other: ArraySlice<UInt8>) -> Bool {
        indices.contains { self[$0...].starts(with: other) }
    }
}
