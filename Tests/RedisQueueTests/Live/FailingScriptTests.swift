import Glibc
import Harness
import Platform
import Testing

@testable import RedisQueue

/// Takes each command of each script away from the user, calls the script three times, gives the command back, and calls it
/// again. Redis must then have what one undisturbed call leaves behind. A call that fails each time has changed nothing before.
///
/// The commands are read from the text of the script, so a new command is tested without a change here.
@Suite("A script that fails at a command")
struct FailingScriptTests {
    @Test(arguments: FailingScript.workers)
    func `has no repeated effect`(scenario: FailingScript) throws { try test(scenario) }

    @Test(arguments: FailingScript.calls)
    func `of a one-shot call has no repeated effect`(scenario: FailingScript) throws { try test(scenario) }

    /// No right is missing, and only one of several keys has another type.
    @Test func `a take-over moves no job if the list of a chunk is of another type`() throws {
        let redis = try RestrictedRedis()
        try FailingScript.takeOver.prepare(redis)
        try redis.ask("RENAME", redis.keys.chunk("dead", 3), "saved")
        try redis.ask("SET", redis.keys.chunk("dead", 3), "text")
        for _ in 0..<3 { #expect(throws: RedisError.self) { try FailingScript.takeOver.call(redis, 1) } }
        #expect(try redis.ask("LRANGE", redis.keys.recovered[0], "0", "-1") == .array([.string(bytes("first"))]))
        #expect(try redis.ask("EXISTS", redis.keys.recovered[1], redis.keys.recovered[2]) == .integer(0))
        try redis.ask("RENAME", "saved", redis.keys.chunk("dead", 3))
        try FailingScript.takeOver.call(redis, 1)
        #expect(try redis.ask("HGET", redis.keys.stats, "recovered") == .string(bytes("7")))
        #expect(try redis.ask("EXISTS", redis.keys.chunks("dead"), redis.keys.chunk("dead", 3)) == .integer(0))
    }

    private func test(_ scenario: FailingScript) throws {
        let redis = try RestrictedRedis()
        let expected = try redis.outcome(of: scenario, without: nil)
        #expect(try redis.outcome(of: scenario, without: nil) == expected, "the scenario itself differs from run to run")
        for command in scenario.commands.sorted() {
            let found = try redis.outcome(of: scenario, without: command)
            // Counters come last, and a script works without the right to them.
            let counters = command == "HINCRBY" ? expected.counters.union(found.counters) : []
            let lost = expected.lines.subtracting(found.lines).subtracting(counters).sorted()
            let added = found.lines.subtracting(expected.lines).subtracting(counters).sorted()
            #expect(lost.isEmpty && added.isEmpty, "\(scenario.name) without \(command): lost \(lost), added \(added)")
        }
    }
}

/// A script, the data before it, and its call.
struct FailingScript: Sendable, CustomTestStringConvertible {
    var name: String
    /// The commands in the text of the script.
    var commands: Set<String>
    /// Whether the script may fail behind effects that a repetition does not change.
    var mayFailLate = false
    var settings: @Sendable (inout QueueSettings) -> Void = { _ in }
    var prepare: @Sendable (RestrictedRedis) throws -> Void
    /// Gets the number of the attempt, from 1 on.
    var call: @Sendable (RestrictedRedis, Int) throws -> Void
    /// Runs with all rights after the last attempt.
    var after: @Sendable (RestrictedRedis) throws -> Void = { _ in }

    var testDescription: String { name }

    /// The quoted names in capitals in the first argument of `redis.call` and `redis.pcall`, and SORT, which runs
    /// with either.
    static func commands(in script: String) -> Set<String> {
        var found: Set<String> = []
        for opening in ["redis.call(", "redis.pcall("] {
            for part in script.split(separator: opening, omittingEmptySubsequences: false).dropFirst() {
                let first = part.prefix { $0 != "," && $0 != ")" }
                for (place, text) in first.split(separator: "'", omittingEmptySubsequences: false).enumerated()
                where !place.isMultiple(of: 2) && text.count > 2 && text.allSatisfy({ $0.isUppercase }) {
                    found.insert(String(text))
                }
            }
        }
        if script.contains("run('SORT'") { found.insert("SORT") }
        return found
    }
}

/// A server with a user whose commands a test takes away.
final class RestrictedRedis {
    private let server: RedisServer
    private var admin: RedisClient
    /// Of the user without a command.
    private(set) var client: RedisClient
    private var connection: RedisConnection<Void>
    private(set) var settings: QueueSettings
    let keys = Keys(list: "jobs")
    static let worker = WorkerName(text: "w", host: "here", pid: 1)

    struct Outcome: Equatable {
        /// A line for each element of a key.
        var lines: Set<String> = []
        /// Those of counters.
        var counters: Set<String> = []
    }

    init() throws {
        server = try RedisServer()
        var patient = server.settings()
        patient.timeout = .seconds(300)
        admin = try RedisClient(settings: patient)
        _ = try admin.command(["ACL", "SETUSER", "narrow", "reset", "on", ">secret", "~*", "+@all"])
        settings = server.settings(password: "secret")
        settings.username = "narrow"
        settings.timeout = patient.timeout
        client = try RedisClient(settings: settings)
        let endpoint = Endpoint.unix(path: server.socketPath)
        connection = try RedisConnection<Void>(
            to: AddressLookup.inPlace(endpoint).get()[0], of: endpoint, tls: nil, timeout: patient.timeout, now: .now)
        _ = try run(Arguments(["AUTH", "narrow", "secret"]))
    }

    /// Runs the scenario, and returns everything that Redis has afterwards.
    func outcome(of scenario: FailingScript, without command: String?) throws -> Outcome {
        let whole = settings
        defer { settings = whole }
        scenario.settings(&settings)
        try ask("FLUSHALL")
        try scenario.prepare(self)
        if let command {
            let before = try read()
            try ask("ACL", "SETUSER", "narrow", "-\(command.lowercased())")
            var failures = 0
            for attempt in 1...3 { do { try scenario.call(self, attempt) } catch { failures += 1 } }
            try ask("ACL", "SETUSER", "narrow", "+\(command.lowercased())")
            if failures == 3, !scenario.mayFailLate {
                let after = try read().lines.filter { !$0.hasPrefix(keys.nothing) }
                #expect(after == before.lines, "\(scenario.name) without \(command) fails, and has an effect")
            }
        }
        try scenario.call(self, 4)
        try scenario.after(self)
        return try read()
    }

    /// With all rights.
    @discardableResult
    func ask(_ words: String...) throws -> RedisReply { try admin.command(words) }

    @discardableResult
    func ask(_ words: [String]) throws -> RedisReply { try admin.command(words) }

    /// Runs a call of the worker. An error reply is thrown.
    @discardableResult
    func send(_ call: Call, number: Int64 = 1) throws -> RedisReply {
        var encoder = CallEncoder(
            settings: settings, worker: Self.worker, information: ["host", "here", "lease", "1000"], epochSeed: 7)
        encoder.drawsFraction = false
        var bytes: [UInt8] = []
        encoder.write(call, number: number, to: &bytes)
        return try run(bytes)
    }

    func withClient<Result>(_ body: (inout RedisClient) throws -> Result) throws -> Result { try body(&client) }

    private func run(_ arguments: Arguments) throws -> RedisReply {
        var bytes: [UInt8] = []
        bytes.appendCommand(arguments)
        return try run(bytes)
    }

    private func run(_ bytes: [UInt8]) throws -> RedisReply {
        connection.send((), now: .now) { $0 += bytes }
        var poller = Poller()
        while true {
            try connection.flush(now: .now)
            poller.reset()
            connection.addInterest(to: &poller)
            poller.wait(until: connection.deadline)
            try connection.receive(poller, now: .now)
            guard let incoming = connection.next() else { continue }
            if case .error(let error) = incoming.reply { throw RedisError.reply(error) }
            return incoming.reply
        }
    }

    /// Everything, without what differs from run to run: the ids of stream entries, and times.
    private func read() throws -> Outcome {
        var outcome = Outcome()
        for line in try ask("EVAL", RestrictedRedis.everything, "0").items?.compactMap(\.text) ?? [] {
            outcome.lines.insert(line)
            if line.hasPrefix(keys.stats) || line.contains(" claimed ") || line.contains(" sent ") {
                outcome.counters.insert(line)
            }
        }
        return outcome
    }

    private static let everything = """
        local out = {}
        local function short(text)
          if #text > 100000 then return #text .. ' bytes, ' .. string.sub(text, 1, 20) end
          -- Ranks begin with the time of the first registration; 60 s later is another time.
          text = string.gsub(text, '%f[%d]1%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%f[%D]', 'RANK')
          text = string.gsub(text, '^(%d:[01]+)%l+$', '%1 RANK')
          return (string.gsub(text, '%f[%d]1%d%d%d%d%d%d%d%d%d%d%d%d%f[%D]', 'TIME'))
        end
        for _, key in ipairs(redis.call('KEYS', '*')) do
          local kind = redis.call('TYPE', key).ok
          local function add(...) out[#out + 1] = table.concat({key, ...}, ' ') end
          if kind == 'list' then
            for i = 0, redis.call('LLEN', key) - 1 do add(i, short(redis.call('LINDEX', key, i))) end
          elseif kind == 'hash' or kind == 'zset' then
            local all = kind == 'hash' and redis.call('HGETALL', key) or redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
            for i = 1, #all, 2 do add(short(all[i]), short(all[i + 1])) end
          elseif kind == 'stream' then
            for i, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do add(i, table.concat(entry[2], ' ')) end
          else
            add(kind)
          end
        end
        return out
        """
}

// MARK: Scripts of a worker

extension FailingScript {
    static let workers: [FailingScript] =
        [register(isExpected: false), register(isExpected: true), beat]
        + [claim, claimOfTooManyBytes, claimOfLargeJob, claim(recovered: 0), claim(recovered: 1), claim(recovered: 2)]
        + [settleAcknowledgements(places: [0, 1, 2]), settleAcknowledgements(places: [1])]
        + [settleEverything(most: 0), settleEverything(most: 3), settleAtMostOnce(most: 0), settleAtMostOnce(most: 3)]
        + [settleWithCompaction, settleSlots, claimSlots, reviewSlot, returnSlots]
        + [promote, takeOver, adopt, merge, unregister]
        + [launch, keep, claimTokens("list"), claimTokens("set"), claimTokens("zset"), figures]

    private static let registration = Call.register(.init(counter: 5, confirmed: 0, isExpected: false))

    private static func claimCall(_ chunk: UInt64, _ count: Int, bytes: Int = 1 << 20) -> Call {
        .claim(.init(chunk: chunk, count: count, fromSecond: 32, mostBytes: bytes))
    }

    private static func register(isExpected: Bool) -> FailingScript {
        FailingScript(
            name: isExpected ? "register again" : "register", commands: commands(in: Registration.script.text), mayFailLate: true,
            settings: { $0.resultsKey = "{jobs}:results" },
            prepare: { redis in
                try redis.ask("RPUSH", redis.keys.dead, "letter")
                try redis.ask("ZADD", redis.keys.delayed, "99999999999999", "other:1:1|x")
                if isExpected {
                    try redis.ask("HSET", redis.keys.stats, "born", "1", "reaped:w", "4")
                    try redis.ask("HSET", redis.keys.chunks("w"), "1", "0:1")
                    try redis.ask("RPUSH", redis.keys.chunk("w", 1), "a")
                }
            },
            call: { redis, attempt in
                let call = Call.register(.init(counter: 5, confirmed: 2, isExpected: isExpected, sealed: 4))
                try redis.send(call, number: Int64(attempt))
            },
            // The first registration without a reply is remembered: it is another one than that of an undisturbed run.
            after: { redis in
                try redis.ask("HSET", redis.keys.stats, "born", "1")
                try redis.ask("HSET", redis.keys.worker("w"), "since", "1")
            })
    }

    private static let beat = FailingScript(
        name: "beat", commands: commands(in: Beat.script.text), mayFailLate: true,
        prepare: { redis in
            try redis.send(registration)
            try redis.ask("HSET", redis.keys.paused, "app", #"{"until": 1, "since": 0}"#, "b", #"{"until": 0, "since": 0}"#)
            try redis.ask("ZADD", redis.keys.delayed, "99999999999999", "other:1:1|x")
            try redis.ask("HSET", redis.keys.holders, "other", "1")
        },
        call: { redis, _ in try redis.send(.beat(.init(counter: 9, settled: 0))) })

    // MARK: Claims

    private static func claim(_ name: String, _ call: Call, _ prepare: @escaping @Sendable (RestrictedRedis) throws -> Void)
        -> FailingScript
    {
        FailingScript(
            name: name, commands: commands(in: Claim.script.text),
            prepare: { redis in
                try redis.send(registration)
                try prepare(redis)
            },
            call: { redis, _ in try redis.send(call) })
    }

    private static let claim = claim("claim", claimCall(1, 3)) { redis in
        try redis.ask("RPUSH", "jobs", "a", "b", "c", "d", "e")
        try redis.ask("HSET", redis.keys.paused, "b", #"{"until": 0, "since": 0}"#)
    }

    private static var claimOfTooManyBytes: FailingScript {
        var scenario = claim("claim of too many bytes", claimCall(1, 100, bytes: 4096)) { redis in
            let jobs = (0..<40).map { "\($0)" + String(repeating: "x", count: $0 < 3 ? 10 : 900) }
            try redis.ask(["RPUSH", "jobs"] + jobs)
        }
        scenario.commands.subtract(["SORT", "MEMORY"])  // The script counts bytes otherwise than Redis, and takes more jobs.
        return scenario
    }

    private static var claimOfLargeJob: FailingScript {
        var scenario = claim("claim of a large job", claimCall(1, 100)) { redis in
            let push = "redis.call('RPUSH', KEYS[1], string.rep('x', \(ClaimedJob.mostBytes + 1)), 'b')"
            try redis.ask("EVAL", push, "1", "jobs")
        }
        // A copy of such a job takes time. Without the other commands the script does not come as far as the job.
        scenario.commands = ["SORT", "MEMORY", "LRANGE", "RPUSH", "HSET", "HDEL", "DEL", "LTRIM"]
        return scenario
    }

    private static func claim(recovered level: Int) -> FailingScript {
        claim("claim of recovered:\(level + 1)", claimCall(1, 100)) { redis in
            try redis.ask("RPUSH", "jobs", "d", "e")
            try redis.ask("RPUSH", redis.keys.recovered[level], "a", "b", "c")
        }
    }

    // MARK: Settlements

    private static let jobTexts = (0..<20).map { "job \($0) {[12,34]}" }

    /// Chunk 1 has 14 jobs, chunk 2 has 3, and chunk 3 has 3.
    private static func claimAll(_ redis: RestrictedRedis) throws {
        try redis.send(registration)
        try redis.ask(["RPUSH", "jobs"] + jobTexts)
        for (chunk, count) in [(1, 14), (2, 3), (3, 3)] { try redis.send(claimCall(UInt64(chunk), count)) }
    }

    private static func window() -> Chunks {
        var held = Chunks()
        for (chunk, places) in [(UInt64(1), 0..<14), (2, 14..<17), (3, 17..<20)] {
            let jobs = places.map { place in
                ClaimedJob(id: ClaimID(chunk: chunk, place: place - places.lowerBound), bytes: bytes(jobTexts[place]))
            }
            held.insert(jobs, chunk: chunk)
        }
        return held
    }

    /// Acknowledges these jobs of chunk 2.
    private static func settleAcknowledgements(places: [Int]) -> FailingScript {
        FailingScript(
            name: "settle: acknowledgements of \(places.count) jobs", commands: commands(in: SettleBatch.script.text),
            prepare: claimAll,
            call: { redis, _ in
                var (held, batch) = (window(), SettleBatch())
                batch.sequence = 1
                batch.maybeDuplicates = 2
                for place in places { batch.addAcknowledgement(ClaimID(chunk: 2, place: place)) }
                held.address(&batch)
                try redis.send(.settle(batch))
            })
    }

    private static func effects(of chunk: UInt64) -> [Settlement] {
        func settlement(_ place: Int, _ effect: Settlement.Effect) -> Settlement {
            var settlement = Settlement(id: ClaimID(chunk: chunk, place: place), effect: effect)
            if place < 4 { settlement.result = [bytes("place"), bytes("\(place)")] }
            if (3...5).contains(place) { settlement.feedback = bytes("feedback \(place)") }
            return settlement
        }
        let parts = JobParts(prefix: bytes("<"), ranges: [8..<10, 11..<13], suffix: bytes(">"))
        return [
            settlement(0, .ack),
            settlement(1, .delay(job: bytes("later"), .after(.seconds(1_000_000)), isRetry: true)),
            settlement(2, .delay(job: bytes("due"), .at(milliseconds: 99_999_999_999_999), isRetry: false)),
            settlement(3, .deadLetter(record: bytes("letter 3"), isExpired: false)),
            settlement(4, .deadLetter(record: bytes("letter 4"), isExpired: true)),
            settlement(5, .deadLetter(record: bytes(#"{"a": 1, "job_field": "f5"}"#), isExpired: false, storingJobUnder: "f5")),
            settlement(6, .deadLetter(record: bytes(#"{"a": 1, "job_field": "f6"}"#), isExpired: true, storingJobUnder: "f6")),
            settlement(7, .release(toTail: true)),
            settlement(8, .replace(with: bytes("replaced"), toTail: true)),
            settlement(9, .release(toTail: false)),
            settlement(10, .replace(with: bytes("replaced too"), toTail: false)),
            settlement(11, .split(into: parts)),
        ]
    }

    /// Settles jobs in every way, and some more in a second batch, which also drops the records beyond the maximum.
    private static func settleEverything(most: Int) -> FailingScript {
        FailingScript(
            name: "settle: everything, most records \(most)", commands: commands(in: SettleBatch.script.text),
            settings: {
                $0.resultsKey = "{jobs}:results"
                ($0.deadLetterMax, $0.feedbackMax) = (most, most)
            },
            prepare: { redis in
                try claimAll(redis)
                for number in 0..<3 {
                    try redis.ask("RPUSH", redis.keys.dead, #"{"a": 1, "job_field": "old\#(number)"}"#)
                    try redis.ask("HSET", redis.keys.large, "old\(number)", "large")
                }
                try redis.ask("RPUSH", redis.keys.feedback, "old feedback", "old feedback")
            },
            call: { redis, _ in try redis.send(.settle(firstBatch().batch)) },
            after: { redis in
                var (held, batch) = (firstBatch().held, SettleBatch())
                batch.sequence = 2
                batch.add(
                    Settlement(
                        id: ClaimID(chunk: 1, place: 13), effect: .deadLetter(record: bytes("last"), isExpired: false),
                        feedback: bytes("last")), job: nil)
                held.address(&batch)
                try redis.send(.settle(batch))
            })
    }

    private static func firstBatch() -> (batch: SettleBatch, held: Chunks) {
        var (held, batch) = (window(), SettleBatch())
        batch.sequence = 1
        batch.maybeDuplicates = 1
        batch.addAcknowledgement(ClaimID(chunk: 1, place: 12))
        for place in 0..<3 { batch.addAcknowledgement(ClaimID(chunk: 2, place: place)) }
        batch.addAcknowledgement(ClaimID(chunk: 3, place: 0))
        for settlement in effects(of: 1) { batch.add(settlement, job: nil) }
        held.address(&batch)
        return (batch, held)
    }

    /// A second batch compacts what the first one could not.
    private static let settleWithCompaction = FailingScript(
        name: "settle: compaction", commands: commands(in: SettleBatch.script.text),
        prepare: { redis in
            try redis.send(registration)
            let job = String(repeating: "x", count: 20_000)
            for _ in 0..<5 { try redis.ask(["RPUSH", "jobs"] + (0..<50).map { "\($0)" + job }) }
            try redis.send(claimCall(1, 250, bytes: 8 << 20))
        },
        call: { redis, _ in try redis.send(.settle(largeBatch(1, of: [249] + Array(1..<170)).batch)) },
        after: { redis in
            let job = String(repeating: "x", count: 20_000)
            try redis.ask(["RPUSH", "jobs"] + (0..<100).map { "\($0)" + job })
            try redis.send(claimCall(3, 100, bytes: 8 << 20))
            var held = largeBatch(1, of: [249] + Array(1..<170)).held
            held.insert((0..<100).map { largeJob($0, chunk: 3) }, chunk: 3)
            var batch = SettleBatch()
            batch.sequence = 2
            for place in 1..<100 { batch.addAcknowledgement(ClaimID(chunk: 3, place: place)) }
            for place in 170..<248 { batch.addAcknowledgement(ClaimID(chunk: 1, place: place)) }
            held.address(&batch)
            #expect(batch.compacted == [3, 1])
            try redis.send(.settle(batch))
        })

    private static func largeJob(_ place: Int, chunk: UInt64) -> ClaimedJob {
        ClaimedJob(id: ClaimID(chunk: chunk, place: place), bytes: Array(repeating: 120, count: 20_000))
    }

    private static func largeBatch(_ sequence: UInt64, of places: [Int]) -> (batch: SettleBatch, held: Chunks) {
        var (held, batch) = (Chunks(), SettleBatch())
        held.insert((0..<250).map { largeJob($0, chunk: 1) }, chunk: 1)
        batch.sequence = sequence
        for place in places { batch.addAcknowledgement(ClaimID(chunk: 1, place: place)) }
        held.address(&batch)
        #expect(batch.compacted == [1])
        return (batch, held)
    }

    private static func settleAtMostOnce(most: Int) -> FailingScript {
        FailingScript(
            name: "settle: at most once, most records \(most)", commands: commands(in: SettleBatch.script.text),
            settings: {
                $0.mode = .atMostOnce
                $0.resultsKey = "{jobs}:results"
                ($0.deadLetterMax, $0.feedbackMax) = (most, most)
            },
            prepare: { redis in
                try redis.send(registration)
                try redis.ask("RPUSH", redis.keys.dead, "old", "old")
            },
            call: { redis, _ in
                var (held, batch) = (Chunks(), SettleBatch())
                batch.sequence = 1
                for settlement in effects(of: 1) { batch.add(settlement, job: bytes(jobTexts[settlement.id.place])) }
                held.address(&batch)
                try redis.send(.settle(batch))
            },
            after: { redis in
                var (held, batch) = (Chunks(), SettleBatch())
                batch.sequence = 2
                batch.add(
                    Settlement(
                        id: ClaimID(chunk: 2, place: 0), effect: .deadLetter(record: bytes("last"), isExpired: false),
                        feedback: bytes("last")), job: bytes("x"))
                held.address(&batch)
                try redis.send(.settle(batch))
            })
    }

    // MARK: Slots

    private static func scope(_ lane: String, _ rank: UInt64, _ event: Scope.Event = .update, app: String = "") -> Scope {
        Scope(app: app, lane: lane, name: lane == "c::ordered" ? nil : "n", rank: rank, event: event)
    }

    /// Jobs for the slots of two apps, of which some end others, a 429, and the ends of two flights.
    private static func slotBatch(_ sequence: UInt64) -> SettleBatch {
        var (held, batch) = (window(), SettleBatch())
        batch.sequence = sequence
        let entries = [
            SlotEntry(scope("t::a", 10), job: bytes("a10"), superseded: [bytes("text"), bytes("1")]),
            SlotEntry(scope("t::a", 11), job: bytes("a11"), due: .after(.seconds(10)), count: .retried),
            SlotEntry(scope("t::a", 9), job: bytes("a9"), superseded: [bytes("text"), bytes("1")]),
            SlotEntry(scope("t::b", 12, .end, app: "b"), job: bytes("b12"), due: .at(milliseconds: 99_999_999_999_999)),
            SlotEntry(scope("c::ordered", 13), job: bytes("c13"), throttle: .zero, count: .postponed),
            SlotEntry(scope("c::ordered", 14, .end), job: bytes("c14")),
        ]
        for (place, entry) in entries.enumerated() {
            batch.add(Settlement(id: ClaimID(chunk: 1, place: place), effect: .slot(entry)), job: nil, level: UInt8(place % 4))
        }
        batch.add(Settlement(id: ClaimID(chunk: 1, place: 6), effect: .release(toTail: true), aside: "b"), job: nil)
        batch.add(Settlement(id: ClaimID(chunk: 2, place: 0), effect: .ack, scope: scope("c::x", 5)), job: nil)
        let letter = Settlement.Effect.deadLetter(record: bytes("letter"), isExpired: false)
        batch.add(Settlement(id: ClaimID(chunk: 2, place: 1), effect: letter, scope: scope("t::y", 6)), job: nil)
        held.address(&batch)
        return batch
    }

    private static let settleSlots = FailingScript(
        name: "settle: slots", commands: commands(in: SettleBatch.script.text + Slots.functions),
        settings: { $0.resultsKey = "{jobs}:results" },
        prepare: { redis in
            try claimAll(redis)
            try redis.ask(
                "HSET", redis.keys.slots, "c::x =n", "3|5|512|7:u0:1|w", "c::x", "15000 1 15000 1 1", "t::y =n", "3|6|513||w")
            try redis.ask("HSET", redis.keys.states, "c::x =n 7", "0\nx7")
            try redis.ask("ZADD", redis.keys.waiting, "1", "c::x =n 7")
            try redis.ask("ZADD", redis.keys.scope(""), "99999999999999", "c::x =n", "99999999999999", "t::y =n")
        },
        call: { redis, _ in try redis.send(.settle(slotBatch(1))) })

    /// A job of each kind: due, in flight for long, not due, of a lane with a pause, and a record at its end.
    private static func fillSlots(_ redis: RestrictedRedis) throws {
        let keys = redis.keys
        try redis.send(registration)
        let records = [
            "t::a =n": "0|0|0|5:u0:1,6:s0:1|", "t::flight =n": "3|5|256||gone", "t::later =n": "0|0|0|8:u0:99999999999999|",
            "c::paced =n": "0|0|0|9:e0:1|", "c::paced": "15000 99999999999999 15000 1 1", "t::old =n": "3|0|5||",
            "c::old": "15000 1 0 1 1",
            "t::kept =n": "3|0|99999999999999||", "c::pace =n": "0|0|0|10:u0:1|", "c::pace": "15000 1 0 1 1",
        ]
        for (field, record) in records { try redis.ask("HSET", keys.slots, field, record) }
        for lane in ["c::old", "c::pace"] { try redis.ask("ZADD", keys.paced, lane == "c::old" ? "1" : "99999999999998", lane) }
        try redis.ask("ZADD", keys.paced, "99999999999999", "c::paced")
        for field in ["t::a =n 5", "t::a =n 6", "t::later =n 8", "c::paced =n 9", "c::pace =n 10"] {
            try redis.ask("HSET", keys.states, field, "0\njob \(field)")
            try redis.ask("ZADD", keys.waiting, String(field.suffix(1)), field)
        }
        for scope in records.keys.sorted() where scope.hasSuffix(" =n") { try redis.ask("ZADD", keys.scope(""), "1", scope) }
    }

    private static let claimSlots = FailingScript(
        name: "claim from slots", commands: commands(in: SlotClaim.script.text), prepare: fillSlots,
        call: { redis, _ in try redis.send(.claim(.init(chunk: 1, count: 100, fromSecond: 0, source: .slots("", others: [])))) })

    private static let reviewSlot = FailingScript(
        name: "review of a slot", commands: commands(in: SlotReview.script.text), prepare: fillSlots,
        call: { redis, _ in
            let review = SlotReview(app: "", scope: bytes("t::flight =n"), claim: ClaimID(256), holder: "gone")
            try redis.send(.review(review))
        })

    private static let returnSlots = FailingScript(
        name: "return of slots", commands: commands(in: SlotReturn.script.text), prepare: fillSlots,
        call: { redis, _ in try redis.send(.returnSlots) })

    // MARK: Others

    private static let promote = FailingScript(
        name: "promote", commands: commands(in: Promotion.script.text),
        prepare: { redis in
            try redis.ask("RPUSH", "jobs", "waiting")
            for number in 1...5 { try redis.ask("ZADD", redis.keys.delayed, "\(number)", "other:1:\(number)|job \(number)") }
            try redis.ask("ZADD", redis.keys.delayed, "99999999999999", "other:2:1|later")
        },
        call: { redis, _ in try redis.send(.promote) })

    static let takeOver = FailingScript(
        name: "takeOver", commands: commands(in: Takeover.script.text),
        prepare: { redis in
            let keys = redis.keys
            try redis.send(registration)
            try redis.ask("HSET", keys.inflight("dead"), "1", "old 1", "2:1", "old 2", "3:3", "old 3")
            try redis.ask("HSET", keys.chunks("dead"), "1", "0:101", "2", "1:11", "3", "2:1", "4", "3:1")
            for (chunk, jobs) in [(1, ["a", "b", "c"]), (2, ["d", "e"]), (3, ["f"]), (4, ["g"])] {
                try redis.ask(["RPUSH", keys.chunk("dead", UInt64(chunk))] + jobs)
            }
            try redis.ask("HSET", keys.holders, "dead", "1")
            try redis.ask("ZADD", keys.workers, "3", "dead")
            try redis.ask("HSET", keys.worker("dead"), "lease", "1000", "settled", "9", "number", "1")
            for number in 0..<70 { try redis.ask("HSET", keys.stats, "reaped:\(number)", "1") }
            try redis.ask("RPUSH", keys.recovered[0], "first")
        },
        call: { redis, _ in
            try redis.takeOver(Takeover.Dead(worker: "dead", counter: 3, silence: .seconds(9)), suspects: 7)
        })

    /// One of the jobs waits in the list behind another one: it is moved to the chunk.
    private static let adopt = FailingScript(
        name: "adopt", commands: commands(in: Adoption.script.text),
        prepare: { redis in
            try redis.send(registration)
            try redis.ask("RPUSH", "jobs", "x", "a", "y")
        },
        call: { redis, _ in
            let jobs = [Adoption.Job(place: 0, bytes: bytes("a")), Adoption.Job(place: 2, bytes: bytes("c"))]
            try redis.send(.adopt(.init(chunk: 4, level: 0, positions: 3, jobs: jobs)))
        })

    private static let merge = FailingScript(
        name: "merge", commands: commands(in: PopQueue.mergeScript.text), settings: { $0.mode = .atMostOnce },
        prepare: { redis in
            try redis.ask("RPUSH", "jobs", "waiting")
            for (level, key) in redis.keys.recovered.enumerated() { try redis.ask("RPUSH", key, "a\(level)", "b\(level)") }
        },
        call: { redis, _ in try redis.send(.pop(.merge)) })

    private static let launch = FailingScript(
        name: "launch", commands: commands(in: CampaignLaunch.script.text),
        prepare: { redis in
            try redis.send(registration)
            try redis.ask("RPUSH", "aud", "a", "b")
        },
        call: { redis, _ in
            let order = CampaignOrder(name: "c", source: "aud", head: bytes("{"), tail: bytes("}"), over: nil, stopAt: 0.05)
            try redis.send(.launch(CampaignLaunch(claim: ClaimedJob(id: 1, bytes: bytes("job")), order: order)))
        })

    private static let keep = FailingScript(
        name: "keep", commands: commands(in: CampaignLaunch.keepScript.text), prepare: { redis in try redis.send(registration) },
        call: { redis, _ in
            try redis.send(.keep(Campaign(id: "c", head: bytes("{"), tail: bytes("}"), stop: 50)))
        })

    private static func claimTokens(_ kind: String) -> FailingScript {
        let add = ["list": ["RPUSH"], "set": ["SADD"], "zset": ["ZADD"]][kind] ?? []
        return FailingScript(
            name: "claim from a \(kind)", commands: commands(in: CampaignClaim.script.text),
            prepare: { redis in
                try redis.send(registration)
                try redis.ask(add + [redis.keys.audience("c")] + (kind == "zset" ? ["1"] : []) + ["a"])
                try redis.ask(
                    "HSET", redis.keys.campaign("c"), "kind", kind, "left", "1", "audience", "1", "begun", "1", "over", "9",
                    "created", "7")
            },
            call: { redis, _ in
                // With another number, because a claim that has taken the tokens is not repeated.
                let left = try redis.ask("EXISTS", redis.keys.audience("c")) == .integer(1)
                let source = Claim.Source.campaign("c", created: "7")
                if left { try redis.send(.claim(Claim(chunk: 1, count: 9, fromSecond: 0, source: source))) }
            })
    }

    private static let figures = FailingScript(
        name: "figures", commands: commands(in: CampaignFigures.script.text),
        prepare: { redis in
            try redis.send(registration)
            try redis.ask("HSET", redis.keys.worker("w"), "settled", "1")
            try redis.ask("HSET", redis.keys.campaign("c"), "kind", "list", "left", "2", "stop", "1")
            try redis.ask("ZADD", redis.keys.campaigns, "5", "c")
        },
        call: { redis, _ in
            var counts = CampaignCounts(of: "c")
            counts.add(CampaignOutcome(campaign: "c", kind: .sent, isToken: true))
            counts.add(CampaignOutcome(campaign: "c", kind: .dead(reason: "x"), isToken: true))
            try redis.send(.figures(CampaignFigures(sequence: 1, counts: [counts])))
        })

    private static let unregister = FailingScript(
        name: "unregister", commands: commands(in: Unregistration.script.text),
        prepare: { redis in try redis.send(registration) }, call: { redis, _ in try redis.send(.unregister) })
}

// MARK: Scripts of one-shot calls

extension FailingScript {
    static let calls: [FailingScript] = [
        cancel(.waiting), cancel(.delayed), sweep, returnSwept, tokens("list"), tokens("set"), tokens("zset"),
        countTokens, pass, restore,
        putBack, deadLetters, feedback, pause, resume, record,
    ]

    private static let moves = commands(in: GapList.putBackScript)

    private static func cancel(_ source: WaitingJobs.Source) -> FailingScript {
        FailingScript(
            name: "cancel \(source)",
            commands: commands(in: source == .delayed ? CancelledJobs.delayedScript : CancelledJobs.listScript),
            prepare: { redis in
                try redis.ask("RPUSH", "jobs", "a", "b", "a", "c", "d")
                for job in ["a", "b", "c"] { try redis.ask("ZADD", redis.keys.delayed, "99999999999999", job) }
            },
            call: { redis, _ in
                let moves = [("c", 2), ("b", 4)].map {
                    CancelledJobs.Move(fromTail: $0.1, element: bytes($0.0), record: bytes("record \($0.0)"))
                }
                _ = try redis.withClient { try CancelledJobs(redis.keys).cancel(moves, from: source, &$0) }
            })
    }

    /// A part of the tokens of a campaign is cancelled.
    private static func tokens(_ kind: String) -> FailingScript {
        let add = ["list": ["RPUSH"], "set": ["SADD"], "zset": ["ZADD"]][kind] ?? []
        return FailingScript(
            name: "cancel tokens of a \(kind)",
            commands: commands(in: CampaignList.moveScript),
            prepare: { redis in
                for token in kind == "set" ? ["a", "b"] : ["a", "b", "c"] {
                    try redis.ask(add + [redis.keys.audience("c")] + (kind == "zset" ? ["1"] : []) + [token])
                }
                try redis.ask("HSET", redis.keys.campaign("c"), "kind", kind, "left", "2", "created", "5")
                try redis.ask("ZADD", redis.keys.campaigns, "5", "c")
            },
            call: { redis, _ in
                // A part of them, in the first call that works.
                if try redis.ask("EXISTS", redis.keys.cancelledAudience("c")) == .integer(0) {
                    _ = try redis.withClient { try CampaignList(redis.keys).move(.cancel, 2, of: "c", &$0) }
                }
            })
    }

    /// One of two tokens was cancelled in the list.
    private static let countTokens = FailingScript(
        name: "count cancelled tokens", commands: commands(in: CampaignList.tallyScript),
        prepare: { redis in
            try redis.ask("HSET", redis.keys.campaign("c"), "kind", "list", "left", "2", "created", "5", "ended", "6")
            try redis.ask("ZADD", redis.keys.campaigns, "-6", "c")
        },
        call: { redis, _ in
            _ = try redis.withClient { try CampaignList(redis.keys).count(.cancel, jobs: 1, tokens: 1, of: "c", &$0) }
        })

    private static let sweep = FailingScript(
        name: "sweep", commands: commands(in: CancelledJobs.sweepScript),
        prepare: { redis in try redis.ask("RPUSH", "jobs", "a", "b", "c", "d", "e") },
        call: { redis, _ in
            let page = ["a", "b", "c", "d"].map(bytes)
            let moves = [1, 3].map { (place: $0, record: bytes("record \($0)")) }
            _ = try redis.withClient { try CancelledJobs(redis.keys).sweep(page[...], moves, from: .waiting, &$0) }
        })

    private static let returnSwept = FailingScript(
        name: "return swept", commands: commands(in: CancelledJobs.returnScript),
        prepare: { redis in
            try redis.ask("RPUSH", redis.keys.aside(Keys.sweptName), "a", "b")
            try redis.ask("HSET", redis.keys.asides, Keys.sweptName, "2")
            try redis.ask("RPUSH", "jobs", "c")
        },
        call: { redis, _ in _ = try redis.withClient { try CancelledJobs(redis.keys).returnSwept(to: .waiting, &$0) } })

    private static let pass = FailingScript(
        name: "pass", commands: commands(in: CancelledJobs.passScript),
        prepare: { redis in try redis.ask("RPUSH", redis.keys.cancelled, "record a", "record b", "record c") },
        call: { redis, _ in
            _ = try redis.withClient { try CancelledJobs(redis.keys).pass([bytes("record a"), bytes("record b")], &$0) }
        })

    private static let putBack = FailingScript(
        name: "put back", commands: moves,
        prepare: { redis in
            try redis.ask("RPUSH", redis.keys.cancelledPassed, "record a", "record b")
            try redis.ask("RPUSH", redis.keys.cancelled, "record c")
        },
        call: { redis, _ in _ = try redis.withClient { try CancelledJobs(redis.keys).putBack(&$0) } })

    private static let restore = FailingScript(
        name: "restore", commands: commands(in: CancelledJobs.restoreScript),
        prepare: { redis in try redis.ask("RPUSH", redis.keys.cancelledPassed, "record a", "record b", "record c") },
        call: { redis, _ in
            let jobs = [
                CancelledJobs.Restore(record: bytes("record c"), change: .push(bytes("c"))),
                CancelledJobs.Restore(record: bytes("record b"), change: .keep),
                CancelledJobs.Restore(record: bytes("record a"), change: .delay(bytes("a"), due: "99999999999999")),
            ]
            _ = try redis.withClient { try CancelledJobs(redis.keys).restore(jobs, &$0) }
        })

    private static let deadLetters = FailingScript(
        name: "dead letters", commands: commands(in: DeadLetterList.stepScript),
        prepare: { redis in
            try redis.ask("RPUSH", redis.keys.dead, "a", "b", "c", "d", "e")
            try redis.ask("HSET", redis.keys.large, "f", "large job", "g", "other")
        },
        call: { redis, _ in
            let steps = [
                DeadLetterList.Step(record: bytes("a"), change: .requeue(job: bytes("job a"))),
                DeadLetterList.Step(record: bytes("b"), change: .requeueStored, field: "f"),
                DeadLetterList.Step(record: bytes("c"), change: .keep),
                DeadLetterList.Step(record: bytes("d"), change: .drop, field: "g"),
            ]
            _ = try redis.withClient { try DeadLetterList(redis.keys).apply(steps, &$0) }
        })

    private static let feedback = FailingScript(
        name: "feedback", commands: commands(in: FeedbackList.removeScript),
        prepare: { redis in try redis.ask("RPUSH", redis.keys.feedback, "a", "b", "c") },
        call: { redis, _ in
            _ = try redis.withClient { try FeedbackList(redis.keys).remove([bytes("a"), bytes("b")], &$0) }
        })

    private static let pause = FailingScript(
        name: "pause", commands: commands(in: PauseList.pauseScript), prepare: { _ in },
        call: { redis, _ in
            _ = try redis.withClient { try PauseList(redis.keys).pause(.app("a"), for: .seconds(60), details: [], &$0) }
        })

    private static let resume = FailingScript(
        name: "resume", commands: commands(in: PauseList.resumeScript),
        prepare: { redis in
            try redis.ask("HSET", redis.keys.paused, "a", #"{"until": 0, "since": 0}"#, "b", #"{"until": 1, "since": 0}"#)
            try redis.ask("HSET", redis.keys.paused, "c", #"{"until": 0, "since": 0}"#)
        },
        call: { redis, _ in _ = try redis.withClient { try PauseList(redis.keys).resume(.app("a"), &$0) } })

    private static let record = FailingScript(
        name: "worker record", commands: commands(in: WorkerRecord.script),
        prepare: { redis in try redis.send(registration) },
        call: { redis, _ in
            let fields = WorkerRecord.Fields(apps: bytes("[]"), counts: bytes("{}"))
            try redis.withClient { try WorkerRecord.write(fields, of: "w", redis.keys, &$0) }
        })
}

extension RestrictedRedis {
    /// Sends the call that takes over a dead worker.
    func takeOver(_ dead: Takeover.Dead, suspects chunk: UInt64) throws {
        let reply = try send(.takeOver(.init(dead: dead, chunk: chunk)))
        if case .lists(let lists) = Takeover.Reply(reply.items ?? []) {
            try send(.takeOver(.init(dead: dead, chunk: chunk, lists: lists)))
        }
    }
}
