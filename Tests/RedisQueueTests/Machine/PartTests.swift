import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("The parts of the queue machine")
struct PartTests {
    private static let launched = ClaimedJob(id: id(3, 0), bytes: bytes("job"))
    private static let launch = CampaignLaunch(
        claim: launched, order: CampaignOrder(name: "c", source: "aud", head: [], tail: [], over: nil, stopAt: 0))

    private static func launch(_ number: UInt64) -> CampaignLaunch {
        var launch = launch
        launch.number = number
        return launch
    }

    @Test func `a launch that was sent twice is answered once, and is repeated until its job is settled`() {
        var chunks = Chunks()
        chunks.insert([Self.launched], chunk: 3)
        var campaigns = Campaigns()
        campaigns.launch(Self.launch)
        let first = campaigns.startsLaunch(holding: chunks)
        campaigns.connectionLost()
        campaigns.beginServing(holding: chunks, now: .now)
        let second = campaigns.startsLaunch(holding: chunks)
        #expect(first == Self.launch(1) && second == Self.launch(2))
        let start = CampaignStart.begun(id: "c", tokens: 1)
        let answer = campaigns.launched(Self.launch(2), start, holding: chunks, now: .now)
        let again = campaigns.launched(Self.launch(2), start, holding: chunks, now: .now)
        #expect(answer == .launched(Self.launched, start) && again == nil)
        let repeated = campaigns.launchesToRepeat(holding: chunks)
        let needed = campaigns.lastBegun(holding: chunks)
        #expect(repeated == [Self.launch(3)] && needed == 3)
        chunks.settle(Self.launched.id)
        chunks.remove(Self.launched.id)
        let settled = campaigns.launchesToRepeat(holding: chunks)
        let after = campaigns.lastBegun(holding: chunks)
        #expect(settled.isEmpty && after == 0)
    }

    @Test func `a launch follows the reply to the one before it, and names the last one that began`() {
        var (chunks, campaigns) = (Chunks(), Campaigns())
        let jobs = (0..<3).map { ClaimedJob(id: id(3, $0), bytes: bytes("job \($0)")) }
        chunks.insert(jobs, chunk: 3)
        for job in jobs { campaigns.launch(CampaignLaunch(claim: job, order: Self.launch.order)) }
        func next() -> CampaignLaunch? { campaigns.startsLaunch(holding: chunks) }
        func answer(_ launch: CampaignLaunch?, _ start: CampaignStart) {
            if let launch { _ = campaigns.launched(launch, start, holding: chunks, now: .now) }
        }
        let (first, none) = (next(), next())
        #expect(first?.after == 0 && none == nil)
        answer(first, .begun(id: "c", tokens: 1))
        let second = next()
        #expect(second?.number == 2 && second?.after == 1)
        answer(second, .refused(.missing))
        let third = next()
        #expect(third?.number == 3 && third?.after == 1)
        answer(third, .begun(id: "d", tokens: 1))
        let repeated = campaigns.launchesToRepeat(holding: chunks)
        #expect(repeated.map(\.number) == [4, 5] && repeated.map(\.after) == [0, 4])
        // Its name belongs to another campaign now: no settlement waits for it.
        answer(repeated.last, .refused(.nameInUse("d")))
        let needed = campaigns.lastBegun(holding: chunks)
        #expect(needed == 4)
    }

    @Test func `the campaign of a job that another worker has taken over is not launched`() {
        var campaigns = Campaigns()
        campaigns.launch(Self.launch)
        campaigns.connectionLost()
        campaigns.beginServing(holding: Chunks(), now: .now)
        let next = campaigns.startsLaunch(holding: Chunks())
        #expect(next == nil)
    }

    @Test func `a campaign without tokens rests until its next claim`() {
        let now = Instant.now
        var campaigns = Campaigns()
        _ = campaigns.learned([("c", "1")], holding: Chunks(), now: now)
        #expect(campaigns.resting(now: now).isEmpty)
        campaigns.claimed(0, of: "c", wait: -2, now: now)
        #expect(campaigns.resting(now: now) == ["c"])
        #expect(campaigns.resting(now: now + .seconds(1)).isEmpty)
    }

    /// One campaign has 1,000 places, of which about 900 are taken. Several share 1,000 free places, beside 2,000 held jobs.
    @Test(arguments: [(1, 100, 900, 2), (1, 125, 875, 0), (16, 62, 2000, 0), (50, 20, 2000, 2)] as [(Int, Int, Int, Int)])
    func `a claim from a campaign waits for an eighth of all places`(count: Int, places: Int, held: Int, wait: Int) {
        let now = Instant.now
        var campaigns = Campaigns()
        let ids = (0..<count).map { "c\($0)" }
        _ = campaigns.learned(ids.map { ($0, "1") }, holding: Chunks(), now: now)
        for id in ids {
            _ = campaigns.described(id, Campaign(id: id, head: [], tail: [], stop: 0))
            campaigns.offer(places: places, id: id, now: now)
        }
        #expect(campaigns.claimsAt(holding: held) == now + .milliseconds(wait))
    }

    @Test func `a name that another campaign has now is asked for again, and claims tell which one they mean`() {
        let now = Instant.now
        var campaigns = Campaigns()
        let first = Campaign(id: "c", head: [1], tail: [], stop: 0)
        #expect(campaigns.learned([("c", "1")], holding: Chunks(), now: now) == ["c"])
        _ = campaigns.described("c", first)
        #expect(campaigns.learned([("c", "1")], holding: Chunks(), now: now) == [])
        campaigns.offer(places: 9, id: "c", now: now)
        #expect(campaigns.next(now: now + .seconds(1), holding: 0)?.created == "1")
        _ = campaigns.change()
        #expect(campaigns.learned([("c", "2")], holding: Chunks(), now: now) == ["c"])
        #expect(campaigns.change() == .campaigns([], active: []))
        #expect(campaigns.learned([], holding: Chunks(), now: now) == [])
        // A token of it has come with a job of the list.
        _ = campaigns.described("c", first)
        #expect(campaigns.learned([("c", "3")], holding: Chunks(), now: now) == ["c"])
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func `held jobs are those that were inserted and not removed`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var held = Chunks()
        var model: [ClaimID: [UInt8]] = [:]
        var next: UInt64 = 1
        for _ in 0..<4000 {
            if Bool.random(using: &random) || model.isEmpty {
                next += UInt64.random(in: 1...3, using: &random)
                let jobs = (0..<Int.random(in: 1...9, using: &random)).map { place in
                    ClaimedJob(id: id(next, place), bytes: [UInt8(truncatingIfNeeded: next), UInt8(place)])
                }
                held.insert(jobs, chunk: next, level: next % 97 == 0 ? 2 : 0)
                for job in jobs { model[job.id] = job.bytes }
            } else {
                for id in model.keys.shuffled(using: &random).prefix(5) {
                    #expect(held.bytes(of: id) == model[id])
                    held.settle(id)
                    let (first, second) = (held.remove(id), held.remove(id))
                    #expect(first && !second)
                    model[id] = nil
                }
            }
        }
        #expect(held.count == model.count)
        #expect(held.byteCount == 2 * model.count)
        #expect(held.ids == model.keys.sorted())
        #expect(held.countOfLevel(2) == model.keys.count { $0.chunk % 97 == 0 })
        // The entries are those of Redis: one that marks what is held changes nothing.
        let numbers = Set(model.keys.map(\.chunk))
        held.compare(with: numbers.reduce(into: [:]) { $0[$1] = held.entry(of: $1) })
        #expect(held.unknown.isEmpty && held.missing.isEmpty)
        held.compare(with: [:])
        #expect(held.missing == held.ids)
    }

    @Test func `numbers are written in decimal`() {
        for number in [UInt64(0), 9, 10, 99, 12_345, 999_999_999_999_999_999, 9_999_999_999_999_999_999, .max] {
            var arguments = Arguments()
            arguments.append(number)
            let text = String(number)
            #expect(String(decoding: arguments.bytes, as: UTF8.self) == "$\(text.utf8.count)\r\n\(text)\r\n")
        }
    }

    @Test func `a script names its keys and arguments, and each name becomes its position`() {
        let text = "redis.call('HSET', KEYS.own, ARGV.place, KEYS[KEY.own + i], ARGV[ARG.place]) -- KEYS[#KEYS]"
        let placed = Script.placed(text, keys: ["nothing", "own"], arguments: ["worker", "number", "place"])
        #expect(placed == "redis.call('HSET', KEYS[2], ARGV[3], KEYS[2 + i], ARGV[3]) -- KEYS[#KEYS]")
    }

    @Test func `keys stay in the slot of their list`() {
        #expect(Keys(list: "q").dead == "{q}:gapless:dead")
        #expect(Keys(list: "a{tag}b").dead == "a{tag}b:gapless:dead")
        #expect(Keys(list: "a{}b").dead == "{a{}b}:gapless:dead")
    }

    @Test func `SHA-1 is SHA-1`() {
        #expect(SHA1.hexadecimal(of: "") == "da39a3ee5e6b4b0d3255bfef95601890afd80709")
        #expect(SHA1.hexadecimal(of: "abc") == "a9993e364706816aba3e25717850c26c9cd0d89d")
        #expect(SHA1.hexadecimal(of: String(repeating: "a", count: 64)) == "0098ba824b5c16427bd7a1122a5a442a25ec644d")
    }

    @Test(arguments: 1...9)
    func `replies are read from pieces of any size`(step: Int) throws {
        let text = "*4\r\n$3\r\na\r\n\r\n*-1\r\n*2\r\n:-7\r\n*0\r\n:5\r\n+OK\r\n-ERR no\r\n$-1\r\n$0\r\n\r\n"
        var reader = ReplyReader()
        var replies: [RedisReply] = []
        let all = Array(text.utf8)
        for start in stride(from: 0, to: all.count, by: step) {
            let part = Array(all[start..<min(start + step, all.count)])
            reader.feed(part, count: part.count)
            while let reply = try reader.next() { replies.append(reply) }
        }
        #expect(
            replies == [
                .array([.string(bytes("a\r\n")), .null, .array([.integer(-7), .array([])]), .integer(5)]),
                .status("OK"), .error(ErrorReply("ERR no")), .null, .string([]),
            ])
    }

    @Test func `bytes that are not the protocol are refused`() {
        var reader = ReplyReader()
        let rubbish = bytes("HTTP/1.1 400 Bad Request\r\n\r\n")
        reader.feed(rubbish, count: rubbish.count)
        #expect(throws: RedisError.self) { try reader.next() }
    }

    @Test func `where the blocking command is refused, the list is polled`() {
        var waiting = Waiting()
        waiting.claimed(drained: true, count: 0, now: start)
        waiting.arm()
        waiting.refused(ErrorReply("OOM command not allowed"), now: start)
        #expect(!waiting.isWorthClaiming(at: start + .milliseconds(19)))
        #expect(waiting.isWorthClaiming(at: start + .milliseconds(20)))
        waiting.claimed(drained: true, count: 0, now: start + .milliseconds(20))
        #expect(waiting.isWorthClaiming(at: start + .milliseconds(40)))
        waiting.claimed(drained: true, count: 0, now: start + .seconds(1))
        #expect(waiting.state == .empty)
        waiting.arm()
        waiting.refused(ErrorReply("ERR unknown command `BLMOVE`, with args"), now: start)
        for _ in 0..<10 { waiting.claimed(drained: true, count: 0, now: start + .seconds(60)) }
        #expect(waiting.isWorthClaiming(at: start + .seconds(60) + .milliseconds(50)))
        #expect(waiting.state != .empty)
    }

    @Test func `a side list that is empty leaves no time for a claim`() {
        var sides = SideLists()
        sides.setAside("second")
        sides.offer(places: 100, app: "second", now: start)
        #expect(sides.next(now: start)?.count == 100)
        sides.offer(places: 90, app: "second", now: start)
        sides.claimed(10, of: "second", isEmptied: true, unconfirmed: [], now: start)
        #expect(sides.apps.isEmpty)
        #expect(sides.claimsAt == nil)
    }

    @Test func `a side list that others have emptied leaves no time for a claim`() {
        var sides = SideLists()
        sides.setAside("second")
        sides.offer(places: 100, app: "second", now: start)
        sides.learned([], unconfirmed: [])
        #expect(sides.claimsAt == nil)
        sides.offer(places: 100, app: "second", now: start)
        #expect(sides.claimsAt == nil)
    }

    @Test func `errors contain no arguments of commands`() {
        #expect(
            ErrorReply("ERR unknown command `X`, with args beginning with: `secret`").text == "ERR unknown command `X`, …")
        #expect(ErrorReply("WRONGTYPE Operation script: e508, on @user_script:12.").text == "WRONGTYPE Operation")
        #expect(
            ErrorReply("ERR ACL failure in script: User u script: e508, on @user_script:1.").text
                == "ERR ACL failure in script: User u")
        #expect(ErrorReply("ERR unknown command `X`, with args beginning with: `NOAUTH`").kind == .unknownCommand)
        #expect(
            ErrorReply("ERR unknown command 'EVAL', with args beginning with: 'secret'").description
                == "ERR unknown command 'EVAL', … (gaplessd requires scripts: EVAL and EVALSHA)")
    }

    @Test(arguments: [
        ("(call to f_7dd5): @user_script:50: WRONGTYPE Operation against a key", "WRONGTYPE Operation against a key"),
        ("(call to f_7dd5): @user_script: 5: -OOM command not allowed", "OOM command not allowed"),
        ("(call to f_0): @user_script:3: @user_script: 3: -READONLY You can't write", "READONLY You can't write"),
        (": @user_script:3: WRONGTYPE Operation", "WRONGTYPE Operation"), ("@user_script:3", nil), ("(call to f_7dd5)", nil),
        ("@user_script: x: OOM", nil), ("@user_script:3: ", ""), ("@user_script:3: -", ""),
    ])
    func `an error inside a script of Redis before 7 has the text of its command`(rest: String, text: String?) {
        let wrapped = "ERR Error running script " + rest
        #expect(ErrorReply(wrapped).text == text ?? wrapped)
        if let text { #expect(ErrorReply(wrapped).kind == ErrorReply(text).kind) }
    }

    @Test(arguments: [
        ("ERR Error running script: @user_script:3: WRONGTYPE Operation", ErrorReply.Kind.wrongType),
        // Since Redis 7.2, and in Valkey.
        (
            "ERR ACL failure in script: User u has no permissions to run the 'zrem' command script: 90, on @user_script:1.",
            .rightMissing(isCommand: true)
        ),
        (
            "ERR ACL failure in script: User u has no permissions to access the 'k' key script: 90, on @user_script:1.",
            .rightMissing(isCommand: false)
        ),
        ("LOADING Redis is loading", .other), ("NOSCRIPT No matching script", .scriptMissing),
        ("MOVED 3999 10.0.0.2:6381", .moved(.init(host: "10.0.0.2", port: 6381))),
        ("MOVED 1 2001:db8::7:7001", .moved(.init(host: "2001:db8::7", port: 7001))), ("MOVED 1 a:0", .moved(nil)),
        ("MOVED 1 a:65536", .moved(nil)), ("MOVED 1 :1 x", .moved(nil)), ("ASK 1 :7001", .ask(.init(host: "", port: 7001))),
        ("ASK 3999", .ask(nil)), ("WRONGPASS invalid username-password pair", .passwordWrong),
        ("ERR Client sent AUTH, but no password is set", .passwordNeedless),
        ("NOPERM this user has no permissions to run the 'eval' command", .rightMissing(isCommand: true)),
        ("NOPERM this user has no permissions to access one of the keys", .rightMissing(isCommand: false)),
    ])
    func `errors are read by their code`(text: String, kind: ErrorReply.Kind) {
        #expect(ErrorReply(text).kind == kind)
    }
}
