import Clocks
import Testing

@testable import RedisQueue

@Suite("What the queue makes of Redis' words")
struct ServerWordsTests {
    private static let passing = [
        "LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
        "CLUSTERDOWN The cluster is down",
        "CLUSTERDOWN Hash slot not served", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "NOREPLICAS Not enough good replicas to write.", "MISCONF Errors writing to the AOF file: No space left on device",
        "READONLY You can't write against a read only replica.", "TRYAGAIN Multiple keys request during rehashing of slot",
        "ASK 3999 127.0.0.1:6381", "ERR max number of clients reached", "ERR something that nobody foresaw",
        // As Redis before 7 wraps what a script ran into.
        "ERR Error running script (call to f_0): @user_script:3: @user_script: 3: -READONLY You can't write against a read only replica.",
    ]
    private static let refusals = [
        "NOAUTH Authentication required.", "WRONGPASS invalid username-password pair or user is disabled.",
        "NOPERM this user has no permissions to run the 'ltrim' command",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "CROSSSLOT Keys in request don't hash to the same slot",
        "ERR Error running script (call to f_0): @user_script:3: WRONGTYPE Operation against a key holding the wrong kind of value",
    ]

    private var machine = QueueMachine(
        settings: QueueSettings(list: "q", server: .unix(path: "/nowhere")), worker: "me", seed: 7, now: start)

    private mutating func effects() -> [QueueMachine.Effect] {
        defer { machine.effects = [] }
        return machine.effects
    }

    private mutating func answer(_ call: Call, _ reply: RedisReply) {
        machine.answered(call, reply, sentAt: start, now: start) { _ in false }
    }

    private mutating func register(counter: Int64 = 1, isExpected: Bool = false) {
        machine.connected()
        let registration = Call.register(.init(counter: counter, confirmed: 0, isExpected: isExpected))
        let items: [RedisReply] = [
            .integer(0), .string(bytes("-1")), .string(bytes("mark")), .integer(0), .integer(-1), .integer(0),
        ]
        answer(registration, .array(items))
    }

    /// Serving, with a claimed job whose acknowledgement is on its way.
    private mutating func serve(info: String = "aof_enabled:1\r\n") {
        machine.advance(now: start)
        register()
        answer(.info, .string(bytes(info)))
        answer(.fields, .array([]))
        machine.offer(places: 1000, now: start)
        machine.advance(now: start)
        answer(
            .claim(first: 1, count: 250, fromSecond: 32),
            .array([
                .integer(1), .integer(0), .integer(0), .integer(0), .integer(0), .string(bytes("one")), .string(bytes("two")),
            ]))
        machine.settle(Settlement(id: 1, effect: .ack), now: start)
        machine.flush()
        machine.advance(now: start)
        machine.effects = []
    }

    private static let calls: [Call] = [
        .claim(first: 3, count: 9, fromSecond: 32), .beat(counter: 2), .promote,
        .reap(.init(worker: "dead", counter: 1), first: 3), .unregister,
        .fields, .adopt([]), .fetch([]),
    ]

    @Test(arguments: passing, calls)
    mutating func `it keeps what it holds, claims nothing, and comes back after a pause`(text: String, call: Call) {
        serve()
        answer(call, .error(text))
        #expect(effects() == [.hangUp, .report(.disconnected(ErrorReply.withoutArguments(text)))])
        #expect(machine.phase == .resting)
        #expect(machine.held.ids == [1, 2])
        #expect(machine.settlements.unconfirmed.count == 1)
        let pause = machine.deadline.map { $0 - start }
        #expect(pause.map { $0 >= .milliseconds(25) && $0 <= .milliseconds(50) } == true)
        machine.advance(now: start)
        #expect(effects() == [])
        machine.advance(now: start + .milliseconds(50))
        #expect(effects() == [.dial])
        register(counter: 2, isExpected: true)
        // What was unanswered goes out again, before anything is claimed.
        let sent = effects().compactMap { if case .call(.settle(let batch)) = $0 { batch.sequence } else { nil } }
        #expect(sent == [1])
    }

    @Test(arguments: refusals)
    mutating func `what only an operator can mend is said, and tried again after five seconds`(text: String) {
        serve()
        answer(.claim(first: 3, count: 9, fromSecond: 32), .error(text))
        let said = effects()
        #expect(said.first == .hangUp)
        guard case .report(.refused(let reason))? = said.last else { return #expect(Bool(false), "\(said)") }
        #expect(reason.hasPrefix(text))
        #expect(machine.held.ids == [1, 2])
        #expect(machine.deadline == start + .seconds(5))
        answer(.beat(counter: 2), .error(text))
        #expect(!effects().contains { if case .report = $0 { true } else { false } }, "once, while it stays the same")
    }

    @Test mutating func `the waiting command may be refused for many reasons, and nothing ends`() {
        for (text, next) in [
            ("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)", Duration.zero),
            ("OOM command not allowed when used memory > 'maxmemory'.", .milliseconds(20)),
            ("READONLY You can't write against a read only replica.", .milliseconds(50)),
        ] {
            serve()
            machine.waiting.arm()
            answer(.wait, .error(text))
            #expect(effects() == [], "\(text)")
            #expect(machine.phase == .serving)
            #expect(machine.waiting.isWorthClaiming(at: start + next))
            if next > .zero { #expect(!machine.waiting.isWorthClaiming(at: start)) }
            machine = QueueMachine(
                settings: QueueSettings(list: "q", server: .unix(path: "/nowhere")), worker: "me", seed: 7, now: start)
        }
    }

    @Test mutating func `a Redis without BLMOVE, or a user without the right, is told of once`() {
        serve()
        for text in [
            "ERR unknown command 'BLMOVE', with args beginning with: 'q'",
            "NOPERM this user has no permissions to run the 'blmove' command",
        ] {
            answer(.wait, .error(text))
            guard case .report(.limited(let sentence))? = effects().last else { return #expect(Bool(false), "nothing was said") }
            #expect(!sentence.contains("'q'"))
            answer(.wait, .error(text))
            #expect(effects() == [])
            #expect(machine.phase == .serving)
        }
    }

    @Test mutating func `LPOP without a count takes one job at a time, told of once`() {
        machine = QueueMachine(
            settings: QueueSettings(list: "q", server: .unix(path: "/nowhere"), mode: .atMostOnce), worker: "me", seed: 7,
            now: start)
        machine.advance(now: start)
        register()
        answer(.info, .string(bytes("aof_enabled:1\r\n")))
        machine.effects = []
        machine.offer(places: 1000, now: start)
        machine.advance(now: start)
        #expect(effects() == [.call(.pop(count: 250))])
        answer(.pop(count: 250), .error("ERR wrong number of arguments for 'lpop' command"))
        #expect(effects() == [.report(.limited("LPOP takes one job at a time (from Redis 6.2 on it takes many)"))])
        machine.advance(now: start)
        #expect(effects() == [.call(.pop(count: 1))])
        answer(.pop(count: 1), .string(bytes("job")))
        #expect(effects() == [.report(.claimed([ClaimedJob(id: 1, bytes: bytes("job"))]))])
        machine.offer(places: 999, now: start)
        machine.advance(now: start)
        #expect(effects() == [.call(.pop(count: 1))])
    }

    // MARK: Cluster

    @Test(arguments: [Call.wait, .claim(first: 3, count: 9, fromSecond: 32), .beat(counter: 2)])
    mutating func `MOVED is followed at once, with all that is held, and without a word`(call: Call) {
        serve()
        answer(call, .error("MOVED 3999 127.0.0.1:6381"))
        machine.advance(now: start)
        #expect(effects() == [.follow("MOVED 3999 127.0.0.1:6381"), .hangUp, .dial])
        #expect(machine.held.ids == [1, 2])
    }

    @Test mutating func `nodes that point at each other for ever are not followed for ever`() {
        machine.advance(now: start)
        for round in 1...3 {
            machine.connected()
            answer(.register(.init(counter: Int64(round), confirmed: 0, isExpected: false)), .error("MOVED 1 a:\(round)"))
            machine.effects = []
            machine.advance(now: start)
            #expect(effects() == [.dial])
        }
        machine.connected()
        answer(.register(.init(counter: 4, confirmed: 0, isExpected: false)), .error("MOVED 1 a:4"))
        machine.advance(now: start)
        #expect(
            effects().last == .report(.disconnected("the nodes of the cluster do not agree on who has the list (MOVED 1 a:4)")))
        #expect(machine.deadline.map { $0 > start } == true)
    }

    @Test mutating func `a cluster is asked for its nodes at each connection, and need not answer`() {
        machine.advance(now: start)
        register()
        machine.effects = []
        answer(.info, .string(bytes("aof_enabled:1\r\ncluster_enabled:1\r\n")))
        #expect(effects() == [.call(.nodes)])
        answer(.fields, .array([]))
        #expect(machine.phase == .reconciling)
        answer(.nodes, .array([.integer(7)]))
        #expect(effects() == [.learn([.integer(7)]), .report(.connected(warnings: []))])
        machine.lost("cut", now: start)
        machine.advance(now: start + .seconds(1))
        machine.effects = []
        register(counter: 2, isExpected: true)
        #expect(effects().contains(.call(.nodes)))
        answer(.fields, .array([]))
        answer(.nodes, .error("NOPERM this user has no permissions to run the 'cluster|slots' command"))
        #expect(machine.phase == .serving)
    }

    // MARK: Rights

    @Test func `the rights that are asked for are those of the scripts, no more and no less`() {
        let scripts = [
            Scripts.register, Scripts.claim, Scripts.beat, Scripts.promote, Scripts.reap, Scripts.adopt, Scripts.unregister,
            Scripts.settle,
        ]
        let direct: Set<String> = ["EVALSHA"]
        let ours = scripts.reduce(into: direct) { $0.formUnion(commands(in: $1.text)) }
        #expect(Set(names(.atLeastOnce)) == ours)
        #expect(Set(names(.atMostOnce)) == ours.union(commands(in: Scripts.merge.text)).union(["BLPOP", "LPOP"]))
        #expect(Set(names(.atLeastOnce)).count == names(.atLeastOnce).count)
    }

    private func names(_ mode: QueueSettings.DeliveryMode) -> [String] {
        UserRights.commands(mode, hasResults: true).map { String($0.prefix { $0 != " " }) }
    }

    /// Every name in quotes behind `call(`, or elsewhere in capitals: `redis.call(kind == 'h' and 'LPUSH' or 'RPUSH', …)`.
    private func commands(in script: String) -> Set<String> {
        let options: Set<String> = ["WITHSCORES", "LIMIT", "MAXLEN", "FENCED", "STALE", "GAP", "NUMBER"]
        let quoted = script.split(separator: "'", omittingEmptySubsequences: false).enumerated().filter {
            !$0.offset.isMultiple(of: 2)
        }
        let names = quoted.map { String($0.element) }.filter { $0.count > 2 && $0.allSatisfy { $0.isUppercase && $0.isASCII } }
        return Set(names).subtracting(options)
    }
}
