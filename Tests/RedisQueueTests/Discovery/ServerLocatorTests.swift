import Testing

@testable import RedisQueue

private func tcp(_ host: String, _ port: Int = 6379) -> Endpoint { .tcp(host: host, port: port) }

@Suite("Where the server is looked for")
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
        let isFollowed = fixed.moved("MOVED 3999 10.0.0.2:6381")
        #expect(isFollowed)
        #expect(fixed.begin() == .dial(tcp("10.0.0.2", 6381), attempt: 0))
        fixed.learned([tcp("10.0.0.2", 6381), tcp("10.0.0.3")])
        fixed.confirmed()
        #expect(fixed.begin() == .dial(tcp("10.0.0.2", 6381), attempt: 0))
        #expect(fixed.begin() == .dial(tcp("seed"), attempt: 0))
        #expect(fixed.begin() == .dial(tcp("10.0.0.3"), attempt: 0))
        #expect(fixed.begin() == .dial(tcp("10.0.0.2", 6381), attempt: 1))
    }

    @Test func `ASK names a node as MOVED does, and neither is taken for the other`() {
        #expect(Endpoint(askedAt: "ASK 3999 10.0.0.2:6381", from: nil) == tcp("10.0.0.2", 6381))
        #expect(Endpoint(askedAt: "ASK 3999 :6381", from: tcp("here")) == tcp("here", 6381))
        #expect(Endpoint(askedAt: "MOVED 3999 10.0.0.2:6381", from: nil) == nil)
        #expect(Endpoint(askedAt: "ASK 3999", from: nil) == nil)
    }

    @Test mutating func `MOVED without a host means the same host, and nonsense is nothing`() {
        _ = fixed.begin()
        #expect(Endpoint(movedTo: "MOVED 1 :7001", from: tcp("here")) == tcp("here", 7001))
        #expect(Endpoint(movedTo: "MOVED 1 ?:7001", from: tcp("here")) == tcp("here", 7001))
        #expect(Endpoint(movedTo: "MOVED 1 2001:db8::7:7001", from: nil) == tcp("2001:db8::7", 7001))
        #expect(Endpoint(movedTo: "MOVED 1 redis.example.com:7001", from: nil) == tcp("redis.example.com", 7001))
        for nonsense in [
            "MOVED", "MOVED 1", "MOVED 1 a", "MOVED 1 a:", "MOVED 1 a:0", "MOVED 1 a:65536", "MOVED 1 a:b", "MOVED 1 :1 x",
            "ASK 1 a:1",
        ] {
            #expect(Endpoint(movedTo: nonsense, from: tcp("here")) == nil, "\(nonsense)")
            let isFollowed = fixed.moved(nonsense)
            #expect(!isFollowed)
        }
        #expect(Endpoint(movedTo: "MOVED 1 :7001", from: .unix(path: "/r")) == nil)
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
        #expect(guarded.unhelpful(.closed) == .ask(tcp("b"), attempt: 0))
        #expect(guarded.named(tcp("m1")) == .dial(tcp("m1"), attempt: 0))
        #expect(guarded.faultOfRole(master("master")) == nil)
        guarded.confirmed()
        #expect(guarded.discovered == tcp("m1"))
        #expect(guarded.begin() == .ask(tcp("b"), attempt: 1))
    }

    @Test mutating func `a replica is not believed, and another Sentinel is asked`() {
        _ = guarded.begin()
        _ = guarded.named(tcp("r1"))
        #expect(guarded.faultOfRole(master("slave")) == "r1:6379 is the master by Sentinel's word, and by its own a replica")
        #expect(guarded.begin() == .ask(tcp("b"), attempt: 1))
        // It never proved to be a master: without Sentinels nobody is known.
        _ = guarded.unhelpful(.closed)
        _ = guarded.unhelpful(.closed)
        guard case .fail = guarded.unhelpful(.closed) else { return #expect(Bool(false), "somebody was dialled") }
    }

    @Test mutating func `the last master is dialled while no Sentinel helps, until it says that it is none`() {
        _ = guarded.begin()
        _ = guarded.named(tcp("m1"))
        guarded.confirmed()
        _ = guarded.begin()
        _ = guarded.unhelpful(.closed)
        _ = guarded.unhelpful(.closed)
        #expect(guarded.unhelpful(.closed) == .dial(tcp("m1"), attempt: 0))
        #expect(guarded.faultOfRole(master("slave")) != nil)
        _ = guarded.begin()
        _ = guarded.unhelpful(.closed)
        _ = guarded.unhelpful(.closed)
        guard case .fail = guarded.unhelpful(.closed) else { return #expect(Bool(false), "a replica was dialled") }
    }

    @Test(arguments: [true, false])
    mutating func `it is a refusal only when each Sentinel refuses`(isEach: Bool) {
        _ = guarded.begin()
        _ = guarded.unhelpful(.reply("knows no master of this name"))
        _ = guarded.unhelpful(isEach ? .reply("AUTH was refused (WRONGPASS)") : .closed)
        guard case .fail(let error) = guarded.unhelpful(.reply("is no Sentinel")) else {
            return #expect(Bool(false), "no failure")
        }
        #expect(error.isRefusal == isEach)
        #expect(
            error.description.hasPrefix("no Sentinel names a master for \"main\" (a:6379: knows no master of this name; b:6379: ")
        )
    }
}
