import Platform
import Testing

@testable import RedisQueue

@Suite("The error replies of a server")
struct ServerRepliesTests {
    private static let passing = [
        "LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
        "CLUSTERDOWN The cluster is down",
        "CLUSTERDOWN Hash slot not served", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "NOREPLICAS Not enough good replicas to write.", "MISCONF Errors writing to the AOF file: No space left on device",
        "READONLY You can't write against a read only replica.", "TRYAGAIN Multiple keys request during rehashing of slot",
        "ASK 3999 127.0.0.1:6381", "ERR max number of clients reached", "ERR something unforeseen",
        // As Redis before 7 wraps an error inside a script.
        "ERR Error running script (call to f_0): @user_script:3: @user_script: 3: "
            + "-READONLY You can't write against a read only replica.",
    ]
    private static let refusals = [
        "NOAUTH Authentication required.", "WRONGPASS invalid username-password pair or user is disabled.",
        "NOPERM this user has no permissions to run the 'ltrim' command",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "CROSSSLOT Keys in request don't hash to the same slot",
        "ERR Error running script (call to f_0): @user_script:3: "
            + "WRONGTYPE Operation against a key holding the wrong kind of value",
    ]

    private var machine = MachineFixture()

    /// Serves, with a claimed job whose acknowledgement was sent.
    private mutating func serve() {
        machine.serve()
        machine.offer(1000)
        machine.advance()
        machine.claim(["one", "two"], asked: 250, drained: 1)
        machine.settle(id(1, 0), .ack, at: start - .seconds(1))
        machine.advance()
        machine.effects()
    }

    private static let calls: [Call] = [
        .claim(MachineFixture.claim(3, 9)), .beat(.init(counter: 2, settled: 0)), .promote,
        .takeOver(.init(dead: .init(worker: "dead", counter: 1), chunk: 3)), .unregister,
        .adopt(.init(chunk: 1, level: 0, positions: 1, jobs: [])), .fetch(.init(chunk: 1, places: [])),
        .jobs(of: MachineFixture.claim(3, 9)),
    ]

    @Test(arguments: passing, calls)
    mutating func `the held jobs are kept, and the next dial follows after a pause`(text: String, call: Call) {
        serve()
        machine.reply(.error(ErrorReply(text)), to: call)
        #expect(machine.effects() == [.hangUp, .report(.disconnected(ErrorReply(text).description))])
        #expect(machine.phase == .disconnected)
        #expect(machine.held == [id(1, 0), id(1, 1)])
        #expect(!machine.machine.holdings.isSettled)
        let pause = machine.deadline.map { $0 - start }
        #expect(pause.map { $0 >= .milliseconds(25) && $0 <= .milliseconds(50) } == true)
        machine.advance()
        #expect(machine.effects() == [])
        machine.advance(to: start + .milliseconds(50))
        #expect(machine.effects() == [.dial])
        machine.register(settled: "0", counter: 2, isExpected: true, chunks: ["1": "0:11"])
        // The unconfirmed settlement is sent again before any claim.
        let sent = machine.effects().compactMap { if case .call(.settle(let batch)) = $0 { batch.sequence } else { nil } }
        #expect(sent == [1])
    }

    @Test(arguments: refusals)
    mutating func `an error that only an operator can remove is reported, and the next dial follows after five seconds`(
        text: String
    ) {
        serve()
        machine.reply(.error(ErrorReply(text)), to: .claim(MachineFixture.claim(3, 9)))
        #expect(machine.effects() == [.hangUp, .report(.refused(.reply(ErrorReply(text))))])
        #expect(machine.held == [id(1, 0), id(1, 1)])
        #expect(machine.deadline == start + .seconds(5))
        machine.reply(.error(ErrorReply(text)), to: .beat(.init(counter: 2, settled: 0)))
        #expect(!machine.effects().contains { if case .report = $0 { true } else { false } }, "reported once")
    }

    @Test(arguments: [
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        "OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
    ])
    mutating func `a refused wait does not end the connection`(text: String) {
        serve()
        machine.reply(.error(ErrorReply(text)), to: .wait)
        #expect(machine.effects() == [])
        #expect(machine.phase == .serving)
    }

    @Test(arguments: [
        ("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", "Redis 7.0.15"),
        ("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n", "Valkey 8.1.1"),
        ("redis_version:7.4.0\r\ndragonfly_version:df-v1.27.1\r\n", "Dragonfly df-v1.27.1"),
        ("redis_version:\(String(repeating: "9", count: 99))", "Redis \(String(repeating: "9", count: 32))"),
        ("rubbish", nil), ("", nil),
    ])
    func `INFO names the product`(text: String, product: String?) { #expect(ServerInfo(text).product == product) }

    @Test mutating func `a Redis without BLMOVE, or a user without the right, is reported once`() {
        serve()
        for (text, feature) in [
            ("ERR unknown command 'BLMOVE', with args beginning with: 'q'", MissingFeature.blockingMove),
            (Self.noBLMOVE, .waitRefused(ErrorReply(Self.noBLMOVE))),
        ] {
            machine.reply(.error(ErrorReply(text)), to: .wait)
            #expect(machine.effects() == [.report(.limited(feature))])
            machine.reply(.error(ErrorReply(text)), to: .wait)
            #expect(machine.effects() == [])
            #expect(machine.phase == .serving)
        }
    }

    private static let noBLMOVE = "NOPERM this user has no permissions to run the 'blmove' command"

    @Test mutating func `LPOP without a count takes one job at a time, reported once`() {
        machine = MachineFixture(mode: .atMostOnce)
        machine.serve()
        machine.offer(1000)
        machine.advance()
        #expect(machine.effects() == [.call(.pop(.jobs(count: 250)))])
        machine.reply(.error(ErrorReply("ERR wrong number of arguments for 'lpop' command")), to: .pop(.jobs(count: 250)))
        #expect(machine.effects() == [.report(.limited(.popCount))])
        machine.advance()
        #expect(machine.effects() == [.call(.pop(.jobs(count: 1)))])
        machine.reply(.string(bytes("job")), to: .pop(.jobs(count: 1)))
        #expect(machine.effects() == [.report(.claimed([ClaimedJob(id: id(1, 0), bytes: bytes("job"))]))])
        machine.offer(999)
        machine.advance()
        #expect(machine.effects() == [.call(.pop(.jobs(count: 1)))])
    }

    // MARK: Cluster

    @Test(arguments: [Call.wait, .claim(MachineFixture.claim(3, 9)), .beat(.init(counter: 2, settled: 0))])
    mutating func `MOVED is followed at once, with all held jobs, and not reported`(call: Call) {
        serve()
        machine.reply(.error(ErrorReply("MOVED 3999 127.0.0.1:6381")), to: call)
        machine.advance()
        #expect(machine.effects() == [.follow(.init(host: "127.0.0.1", port: 6381)), .hangUp, .dial])
        #expect(machine.held == [id(1, 0), id(1, 1)])
    }

    @Test mutating func `nodes that keep pointing at each other are followed three times`() {
        machine.advance()
        for round in 1...3 {
            machine.connected()
            machine.reply(
                .error(ErrorReply("MOVED 1 a:\(round)")),
                to: .register(.init(counter: Int64(round), confirmed: 0, isExpected: false)))
            machine.effects()
            machine.advance()
            #expect(machine.effects() == [.dial])
        }
        machine.connected()
        machine.reply(.error(ErrorReply("MOVED 1 a:4")), to: .register(.init(counter: 4, confirmed: 0, isExpected: false)))
        machine.advance()
        #expect(
            machine.effects().last
                == .report(
                    .disconnected("the nodes of the cluster do not agree on which of them has the list (MOVED 1 a:4)")))
        #expect(machine.deadline.map { $0 > start } == true)
    }

    @Test mutating func `a cluster is asked for its nodes at each connection, and may refuse`() {
        machine.advance()
        machine.register()
        machine.effects()
        machine.reply(.string(bytes("aof_enabled:1\r\ncluster_enabled:1\r\n")), to: .info)
        #expect(machine.effects() == [.call(.nodes)])
        #expect(machine.phase == .reconciling)
        machine.reply([.integer(7)], to: .nodes)
        #expect(machine.effects() == [.learn([.integer(7)]), .report(.connected(warnings: []))])
        machine.lost("cut")
        machine.advance(to: start + .seconds(1))
        machine.effects()
        machine.register(counter: 2, isExpected: true)
        #expect(machine.effects().contains(.call(.nodes)))
        machine.reply(
            .error(ErrorReply("NOPERM this user has no permissions to run the 'cluster|slots' command")), to: .nodes)
        #expect(machine.phase == .serving)
    }

    // MARK: Chunks

    @Test mutating func `a take-over is sent again with the lists of the dead worker`() {
        machine.serve()
        let dead = Takeover.Dead(worker: "dead", counter: 3)
        machine.reply([.string(bytes("LISTS")), .string(bytes("4"))], to: .takeOver(.init(dead: dead, chunk: 7)))
        #expect(machine.effects() == [.call(.takeOver(.init(dead: dead, chunk: 7, lists: ["4"])))])
    }

    // MARK: Rights

    @Test func `the checked rights are those of the scripts, no more and no less`() {
        let scripts = [
            Registration.script, Claim.script, Beat.script, Promotion.script, Takeover.script, Adoption.script,
            Unregistration.script,
            SettleBatch.script,
        ]
        let direct: Set<String> = ["EVALSHA"]
        let ours = scripts.reduce(into: direct) { $0.formUnion(commands(in: $1.text)) }
        let needed = ours.subtracting(["SORT", "MEMORY"])
        #expect(Set(names(.atLeastOnce)) == needed)
        #expect(Set(names(.atMostOnce)) == needed.union(commands(in: PopQueue.mergeScript.text)).union(["BLPOP", "LPOP"]))
        #expect(Set(names(.atLeastOnce)).count == names(.atLeastOnce).count)
    }

    private func names(_ mode: QueueSettings.DeliveryMode) -> [String] {
        UserRights.commands(mode, hasResults: true).map { String($0.prefix { $0 != " " }) }
    }

    /// The quoted names in capitals: `redis.call(kind == 'h' and 'LPUSH' or 'RPUSH', …)`.
    private func commands(in script: String) -> Set<String> {
        let options: Set<String> = [
            "WITHSCORES", "LIMIT", "MAXLEN", "FENCED", "STALE", "GAP", "NUMBER", "TAKEN", "LISTS", "BY", "STORE", "USAGE",
            "SAMPLES",
        ]
        let quoted = script.split(separator: "'", omittingEmptySubsequences: false).enumerated().filter {
            !$0.offset.isMultiple(of: 2)
        }
        let names = quoted.map { String($0.element) }.filter { $0.count > 2 && $0.allSatisfy { $0.isUppercase && $0.isASCII } }
        return Set(names).subtracting(options)
    }
}
