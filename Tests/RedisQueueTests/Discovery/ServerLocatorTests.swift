import Testing

@testable import RedisQueue

private func tcp(_ host: String, _ port: Int = 6379) -> Endpoint { .tcp(host: host, port: port) }

@Suite("The search for the server")
struct ServerLocatorTests {
    private var fixed = ServerLocator(.tcp(host: "seed", port: 6379))
    private var guarded = ServerLocator(.sentinels([tcp("a"), tcp("b"), tcp("c")], master: "main"))

    private func master(_ role: String) -> RedisReply { .array([.string(bytes(role)), .integer(0)]) }

    @Test mutating func `a fixed server is dialled again and again, each time at another of its addresses`() {
        for attempt in 0..<3 { #expect(fixed.begin() == .dial(tcp("seed"), attempt: attempt)) }
        #expect(fixed.discovered == nil)
        fixed.confirmed()
        #expect(fixed.begin() == .dial(tcp("seed"), attempt: 0))
    }

    @Test mutating func `MOVED is followed, and when that node is gone its neighbours are asked`() {
        _ = fixed.begin()
        let isFollowed = fixed.moved(to: .init(host: "10.0.0.2", port: 6381))
        #expect(isFollowed)
        #expect(fixed.begin() == .dial(tcp("10.0.0.2", 6381), attempt: 0))
        fixed.learned([tcp("10.0.0.2", 6381), tcp("10.0.0.3")])
        fixed.confirmed()
        #expect(fixed.begin() == .dial(tcp("10.0.0.2", 6381), attempt: 0))
        #expect(fixed.begin() == .dial(tcp("seed"), attempt: 0))
        #expect(fixed.begin() == .dial(tcp("10.0.0.3"), attempt: 0))
        #expect(fixed.begin() == .dial(tcp("10.0.0.2", 6381), attempt: 1))
    }

    @Test mutating func `a redirection without a host means the same host`() {
        _ = fixed.begin()
        for host in ["", "?"] { #expect(Endpoint(.init(host: host, port: 7001), from: tcp("here")) == tcp("here", 7001)) }
        #expect(Endpoint(.init(host: "there", port: 7001), from: tcp("here")) == tcp("there", 7001))
        #expect(Endpoint(.init(host: "", port: 7001), from: .unix(path: "/r")) == nil)
        let isFollowed = fixed.moved(to: nil)
        #expect(!isFollowed)
    }

    @Test func `nodes are read from CLUSTER SLOTS, replicas too, each once`() {
        func node(_ host: String, _ port: Int64) -> RedisReply {
            .array([.string(bytes(host)), .integer(port), .string(bytes("id"))])
        }
        let slots: [RedisReply] = [
            .array([.integer(0), .integer(5), node("a", 1), node("b", 2)]),
            .array([.integer(6), .integer(9), node("", 3), node("a", 1)]),
            .array([]), .integer(7), .array([.integer(0), .integer(5), .array([.null, .string(bytes("x"))])]),
        ]
        #expect(Endpoint.nodes(slots, besides: tcp("here")) == [tcp("a", 1), tcp("b", 2), tcp("here", 3)])
    }

    @Test mutating func `Sentinels are asked in turn, and the one that helped is asked first the next time`() {
        #expect(guarded.begin() == .ask(tcp("a"), attempt: 0))
        #expect(guarded.sentinelFailed(.closed) == .ask(tcp("b"), attempt: 0))
        #expect(guarded.named(tcp("m1")) == .dial(tcp("m1"), attempt: 0))
        #expect(guarded.faultOfRole(master("master")) == nil)
        guarded.confirmed()
        #expect(guarded.discovered == tcp("m1"))
        #expect(guarded.begin() == .ask(tcp("b"), attempt: 1))
    }

    @Test mutating func `a replica is not believed, and another Sentinel is asked`() {
        _ = guarded.begin()
        _ = guarded.named(tcp("r1"))
        let fault = guarded.faultOfRole(master("slave"))
        #expect(fault == .notMaster(tcp("r1"), role: "slave"))
        #expect(fault?.description == "r1:6379 is the master according to Sentinel, but reports the role replica")
        #expect(guarded.begin() == .ask(tcp("b"), attempt: 1))
        // It never proved to be a master: without Sentinels no server is known.
        _ = guarded.sentinelFailed(.closed)
        _ = guarded.sentinelFailed(.closed)
        guard case .fail = guarded.sentinelFailed(.closed) else { return #expect(Bool(false), "a server was dialled") }
    }

    @Test mutating func `after a dial of a dead master another Sentinel is asked`() {
        #expect(guarded.begin() == .ask(tcp("a"), attempt: 0))
        _ = guarded.named(tcp("old"))
        #expect(guarded.begin() == .ask(tcp("b"), attempt: 1))
        _ = guarded.named(tcp("new"))
        guarded.confirmed()
        #expect(guarded.begin() == .ask(tcp("b"), attempt: 2))
    }

    @Test mutating func `the last master is dialled while no Sentinel helps, until it says that it is none`() {
        _ = guarded.begin()
        _ = guarded.named(tcp("m1"))
        guarded.confirmed()
        _ = guarded.begin()
        _ = guarded.sentinelFailed(.closed)
        _ = guarded.sentinelFailed(.closed)
        #expect(guarded.sentinelFailed(.closed) == .dial(tcp("m1"), attempt: 0))
        #expect(guarded.faultOfRole(master("slave")) != nil)
        _ = guarded.begin()
        _ = guarded.sentinelFailed(.closed)
        _ = guarded.sentinelFailed(.closed)
        guard case .fail = guarded.sentinelFailed(.closed) else { return #expect(Bool(false), "a replica was dialled") }
    }

    @Test(arguments: [true, false])
    mutating func `it is a refusal only when each Sentinel refuses`(isEach: Bool) {
        _ = guarded.begin()
        _ = guarded.sentinelFailed(.unknownMaster)
        _ = guarded.sentinelFailed(isEach ? .authenticationRefused(code: "WRONGPASS", isNeedless: false) : .closed)
        guard case .fail(let error) = guarded.sentinelFailed(.notASentinel) else {
            return #expect(Bool(false), "no failure")
        }
        #expect(error.isRefusal == isEach)
        #expect(
            error.description.hasPrefix(
                "no Sentinel names a master for \"main\" (a:6379: this Sentinel does not know the master; b:6379: "))
    }
}
