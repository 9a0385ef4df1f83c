import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("Campaigns")
struct CampaignTests {
    let server: RedisServer
    let keys = Keys(list: "jobs")

    init() throws { server = try RedisServer() }

    private static let job = #"{"tokens_from":"aud","campaign":"c","data":{}}"#

    private func order(_ source: String = "aud", name: String? = "c", over: Duration? = nil, stopAt: Double = 0.05)
        -> CampaignOrder
    {
        CampaignOrder(
            name: name, source: source, head: bytes(#"{"token":""#), tail: bytes(#"","data":{}}"#), over: over, stopAt: stopAt)
    }

    /// Fills a key with `count` tokens: 00, 01, …
    private func fill(_ kind: String = "list", _ count: Int, key: String = "aud") throws {
        for number in 0..<count {
            let token = Self.token(number)
            switch kind {
            case "list": try server.ask("RPUSH", key, token)
            case "set": try server.ask("SADD", key, token)
            default: try server.ask("ZADD", key, "\(number)", token)
            }
        }
    }

    private static func token(_ number: Int) -> String { (number < 16 ? "0" : "") + String(number, radix: 16) }

    private func element(_ number: Int) -> String { "campaign:c\n" + Self.token(number) }

    /// A worker that has claimed the job of a campaign and begun it.
    private func worker(_ order: CampaignOrder, _ settings: QueueSettings? = nil) throws -> Worker {
        try server.push([Self.job])
        let worker = Worker(settings ?? server.settings())
        worker.run("the job") { worker.jobs.count == 1 }
        worker.queue.launch(worker.jobs[0], order)
        worker.run("an answer") { worker.start != nil }
        return worker
    }

    private func begun(_ order: CampaignOrder) throws -> Worker {
        let worker = try worker(order)
        worker.settle(worker.jobs[0], .split(into: JobParts(texts: [])))
        return worker
    }

    /// A worker that holds three tokens of the campaign, and claims no others.
    private func holderOfThree() throws -> Worker {
        let worker = try begun(order())
        worker.campaignPlaces["c"] = 3
        worker.run("three tokens") { worker.jobs.count == 3 && !worker.queueHasWork }
        worker.campaignPlaces["c"] = 0
        return worker
    }

    private func figures(_ id: String = "c") throws -> [String: String] {
        let all = try server.ask("HGETALL", keys.campaign(id)).items?.compactMap(\.text) ?? []
        return Dictionary(uniqueKeysWithValues: stride(from: 0, to: all.count, by: 2).map { (all[$0], all[$0 + 1]) })
    }

    private func outcome(_ kind: CampaignOutcome.Kind) -> CampaignOutcome {
        CampaignOutcome(campaign: "c", kind: kind, isToken: true)
    }

    @Test(arguments: ["list", "set", "zset"])
    func `each token is claimed once, and the figures end the campaign`(kind: String) throws {
        try fill(kind, 300)
        let worker = try begun(order())
        #expect(worker.start == .begun(id: "c", tokens: 300))
        #expect(try server.ask("EXISTS", "aud") == .integer(0))
        worker.campaignPlaces["c"] = 1000
        worker.run("the tokens") { worker.jobs.count == 300 }
        let all = (0..<300).map(element)
        #expect(kind == "set" ? Set(worker.texts) == Set(all) : worker.texts == all)
        for (number, job) in worker.jobs.enumerated() {
            let isDead = number == 7
            worker.settle(
                job, isDead ? .deadLetter(record: bytes("{}"), isExpired: false) : .ack,
                campaign: outcome(isDead ? .dead(reason: "Unregistered") : .sent))
        }
        try worker.run("the end") { try figures()["ended"] != nil }
        let found = try figures()
        #expect(found["sent"] == "299" && found["dead"] == "1" && found["reason:Unregistered"] == "1")
        #expect(found["left"] == "0" && found["audience"] == "300")
        #expect(try (server.ask("PTTL", keys.campaign("c")).integer ?? 0) > 80_000_000)
        #expect(try server.ask("ZRANGEBYSCORE", keys.campaigns, "-inf", "(0").items?.compactMap(\.text) == ["c"])
        let status = try server.status()
        #expect(status.unexplained == 0 && status.campaigns.map(\.remaining) == [0])
        worker.stop()
    }

    @Test func `another campaign under the name of an ended one has its own job, and its key does not expire`() throws {
        try fill(2)
        let worker = try begun(order())
        worker.campaignPlaces["c"] = 5
        worker.run("the tokens") { worker.jobs.count == 2 }
        for job in worker.jobs { worker.settle(job, .ack, campaign: outcome(.sent)) }
        try worker.run("the end") { try figures()["ended"] != nil }
        try fill(3)
        try server.ask("EXPIRE", "aud", "100")
        try server.push([#"{"other":"bytes"}"#])
        worker.run("another job") { worker.jobs.count == 1 }
        let job = worker.jobs[0]
        var other = order()
        other.head = bytes(#"{"new":1,"token":""#)
        worker.forgetStart()
        worker.queue.launch(job, other)
        worker.run("an answer") { worker.start != nil }
        worker.settle(job, .split(into: JobParts(texts: [])))
        worker.onJob = { job in
            // No token of it comes before its job is known.
            #expect(worker.campaigns.map(\.head) == [other.head])
            return Settlement(id: job.id, effect: .ack, campaign: outcome(.sent))
        }
        #expect(try server.ask("PTTL", keys.audience("c")) == .integer(-1))
        try worker.run("the other end") { try figures()["sent"] == "3" }
    }

    @Test func `a campaign without an outcome for ten seconds has no rate`() throws {
        let time = try server.ask("TIME").items?.first?.text.flatMap { Int($0) } ?? 0
        for (name, age) in [("old", 11), ("new", 5)] {
            try server.ask(
                "HSET", keys.campaign(name), "kind", "list", "audience", "9", "rate", "10.0", "changed", "\((time - age) * 1000)")
            try server.ask("ZADD", keys.campaigns, "\(age)", name)
        }
        let campaigns = try server.status().campaigns
        #expect(campaigns.map(\.rate) == [10, 0] && campaigns.map { $0.expectedEnd == nil } == [false, true])
    }

    @Test func `a campaign that ends takes the pause of stop_at with it, and no other`() throws {
        try fill(20)
        let worker = try begun(order(stopAt: 0.4))
        worker.campaignPlaces["c"] = 20
        worker.run("the tokens") { worker.jobs.count == 20 }
        let jobs = worker.jobs
        for _ in jobs { worker.queue.count(CampaignOutcome(campaign: "c", kind: .suspected, isToken: false)) }
        for job in jobs.prefix(19) { worker.settle(job, .ack, campaign: outcome(.sent)) }
        worker.run("the pause") { worker.pauses.map(\.scope) == [.campaign("c")] }
        var client = try RedisClient(settings: server.settings())
        _ = try PauseList(keys).pause(.campaign("d"), for: nil, details: [], &client)
        worker.settle(jobs[19], .ack, campaign: outcome(.sent))
        try worker.run("the end") { try figures()["ended"] != nil }
        #expect(try PauseList(keys).read(&client).map(\.scope) == [.campaign("d")])
    }

    @Test func `a job whose key cannot be handed over is refused with the reason`() throws {
        #expect(try worker(order("missing")).start == .refused(.missing))
        try server.ask("SET", "text", "x")
        #expect(try worker(order("text")).start == .refused(.wrongType("string")))
        try fill(3)
        let first = try begun(order())
        try server.ask("RPUSH", "other", "00")
        first.forgetStart()
        try server.push([#"{"other":"bytes"}"#])
        first.run("another job") { first.jobs.count == 1 }
        first.queue.launch(first.jobs[0], order("other"))
        first.run("an answer") { first.start != nil }
        #expect(first.start == .refused(.nameInUse("c")))
        #expect(try server.list("other") == ["00"], "the producer keeps its key")
    }

    private func fill(_ count: Int) throws { try fill("list", count) }

    @Test func `the job of a campaign that has begun is settled again, and an unnamed one is named after its bytes`() throws {
        try fill(3)
        let worker = try worker(order(name: nil))
        guard case .begun(let id, tokens: 3) = worker.start else {
            Issue.record("\(String(describing: worker.start))")
            return
        }
        #expect(id.count == 13 && id.hasPrefix("c"))
        worker.forgetStart()
        worker.queue.launch(worker.jobs[0], order(name: nil))
        worker.run("an answer") { worker.start != nil }
        #expect(worker.start == .begun(id: id, tokens: nil))
        try fill(2)
        worker.forgetStart()
        try server.push([Self.job])
        worker.run("the same bytes") { worker.jobs.count == 2 }
        worker.queue.launch(worker.jobs[1], order(name: nil))
        worker.run("an answer") { worker.start != nil }
        #expect(worker.start == .begun(id: id + "-2", tokens: 2), "the same bytes with another audience")
    }

    @Test func `a launch that is sent again finds its campaign also after the end, and takes no other audience`() throws {
        try fill(1)
        let worker = try worker(order())
        try server.ask("DEL", keys.audience("c"))
        try server.ask("HSET", keys.campaign("c"), "ended", "1")
        try fill(2)
        worker.forgetStart()
        worker.queue.launch(worker.jobs[0], order())
        worker.run("an answer") { worker.start != nil }
        #expect(worker.start == .begun(id: "c", tokens: nil))
        #expect(try server.list("aud") == ["00", "01"])
    }

    @Test func `a campaign that Redis has forgotten on an open connection begins again before its job is settled`() throws {
        try fill(3)
        let worker = try worker(order())
        // Everything is as before the launch.
        try server.ask("RENAME", keys.audience("c"), "aud")
        try server.ask("DEL", keys.campaign("c"), keys.campaigns)
        #expect(try server.ask("HDEL", keys.worker(worker.queue.worker), "launched") == .integer(1))
        worker.settle(worker.jobs[0], .split(into: JobParts(texts: [])))
        worker.run("the settlement") { !worker.queueHasWork }
        #expect(worker.isDisconnected)
        #expect(try server.ask("EXISTS", "aud") == .integer(0))
        worker.campaignPlaces["c"] = 5
        worker.run("the tokens") { worker.jobs.count == 3 }
        worker.stop()
    }

    @Test func `the tokens of a dead worker are recovered jobs, and every worker finds the job of the campaign`() throws {
        var settings = server.settings()
        settings.lease = .seconds(1)
        try fill(10)
        let dead = try begun(order())
        dead.campaignPlaces["c"] = 4
        dead.run("four tokens") { dead.jobs.count == 4 }
        try server.ask("ZADD", keys.workers, "99", "gone")
        let entry = try server.ask("HGETALL", keys.chunks(dead.queue.worker)).items?.compactMap(\.text) ?? []
        #expect(entry.count == 2 && entry[1] == "0:1111")
        // The record moves to a worker that is not registered any more.
        try server.ask("RENAME", keys.chunks(dead.queue.worker), keys.chunks("gone"))
        try server.ask("RENAME", keys.chunk(dead.queue.worker, UInt64(entry[0]) ?? 0), keys.chunk("gone", 1))
        try server.ask("DEL", keys.chunks("gone"))
        try server.ask("HSET", keys.chunks("gone"), "1", "0:1111")
        try server.ask("HSET", keys.holders, "gone", "2")
        let worker = Worker(settings)
        worker.run("the recovered tokens") { worker.jobs.count == 4 }
        #expect(worker.texts == (0..<4).map(element))
        #expect(worker.campaigns == [Campaign(id: "c", head: order().head, tail: order().tail, stop: 20)])
    }

    @Test func `a paused campaign gives no token, and a resumed one goes on`() throws {
        try fill(10)
        let worker = try begun(order())
        var client = try RedisClient(settings: server.settings())
        let pauses = PauseList(keys)
        _ = try pauses.pause(.campaign("c"), for: nil, details: [], &client)
        worker.campaignPlaces["c"] = 10
        worker.run("the pause") { worker.pauses.map(\.scope) == [.campaign("c")] }
        #expect(worker.jobs.isEmpty)
        try server.push(["job"])
        worker.run("another job") { worker.texts == ["job"] }
        _ = try pauses.resume(.campaign("c"), &client)
        worker.run("the tokens") { worker.jobs.count == 11 }
    }

    @Test func `a pace admits the tokens that are due, and no more than two seconds at once after a rest`() throws {
        let redis = try RestrictedRedis()
        try redis.send(.register(.init(counter: 1, confirmed: 0, isExpected: false)))
        for number in 0..<1000 { try redis.ask("RPUSH", redis.keys.audience("c"), "\(number)") }
        // 10 tokens per second.
        try redis.ask(
            "HSET", redis.keys.campaign("c"), "kind", "list", "audience", "1000", "over", "100000", "left", "1000", "created", "7"
        )
        func claim(_ chunk: UInt64) throws -> (count: Int, wait: Int64) {
            let claim = Claim(chunk: chunk, count: 250, fromSecond: 0, source: .campaign("c", created: "7"))
            let reply = try #require(Claim.Reply(redis.send(.claim(claim)).items ?? [], to: claim))
            return (reply.count, reply.wait)
        }
        let first = try claim(1)
        #expect(first.count == 1 && (50...100).contains(first.wait))
        func begin(before: Int) throws {
            let time = try redis.ask("TIME").items?.compactMap(\.text) ?? []
            let now = (Int(time[0]) ?? 0) * 1000 + (Int(time[1]) ?? 0) / 1000
            try redis.ask("HSET", redis.keys.campaign("c"), "begun", "\(now - before)", "taken", "1")
        }
        try begin(before: 1000)
        #expect(try [10, 11].contains(claim(3).count))
        try begin(before: 60_000)
        #expect(try [20, 21].contains(claim(5).count))
        let taken = try redis.ask("LLEN", redis.keys.audience("c")).integer
        #expect(taken.map { (967...969).contains($0) } == true)
    }

    @Test func `too many failures among the last thousand outcomes pause the campaign, and a resume forgets them`() throws {
        try fill(120)
        let worker = try begun(order(stopAt: 0.4))
        worker.campaignPlaces["c"] = 120
        worker.run("the tokens") { worker.jobs.count == 120 }
        func settle(_ count: Int, _ kind: CampaignOutcome.Kind) {
            for job in worker.jobs.prefix(count) {
                let effect: Settlement.Effect = kind == .sent ? .ack : .deadLetter(record: bytes("{}"), isExpired: false)
                worker.settle(job, effect, campaign: outcome(kind))
            }
        }
        settle(40, .sent)
        settle(47, .dead(reason: "Unregistered"))
        try worker.run("the outcomes") { try figures()["dead"] == "47" }
        #expect(try server.ask("EXISTS", keys.paused) == .integer(0))
        worker.queue.count(CampaignOutcome(campaign: "c", kind: .suspected, isToken: false))
        worker.run("the pause") { worker.pauses.map(\.scope) == [.campaign("c")] }
        let record = worker.pauses.first.map { String(decoding: $0.record, as: UTF8.self) } ?? ""
        #expect(record.contains(#""reason": "stop_at: 48 of the last 88 pushes failed", "by": "gaplessd""#))
        var client = try RedisClient(settings: server.settings())
        #expect(try PauseList(keys).resume(.campaign("c"), &client))
        #expect(try figures()["window"] == nil)
        settle(1, .dead(reason: "Unregistered"))
        try worker.run("one more") { try figures()["dead"] == "48" }
        #expect(try server.ask("EXISTS", keys.paused) == .integer(0))
    }

    /// A share of 1,000 outcomes, or of a shorter audience, but no fewer than 20 failures unless the share itself means fewer.
    @Test(arguments: [
        (2000, 0.05, 50), (1000, 0.07, 70), (400, 0.1, 40), (200, 0.05, 20), (3, 0.05, 20), (200, 0.001, 1), (300, 0.01, 10),
        (600, 1, 600), (200, 0, 0),
    ])
    func `a short audience stops at the share of its tokens`(audience: Int, share: Double, failures: Int) throws {
        let tokens = (0..<audience).map { String($0 + 0x1000, radix: 16) }
        var client = try RedisClient(settings: server.settings())
        _ = try client.command(["RPUSH", "aud"] + tokens)
        _ = try begun(order(stopAt: share))
        #expect(try figures()["stop"].flatMap { Int($0) } == failures)
        #expect(try server.status().campaigns.map(\.stopAt) == [share])
    }

    /// After a failover to an old replica, tokens are in the audience and in flight: the campaign settles more than it had.
    @Test func `a campaign with tokens in its audience has not ended, whatever its figures say`() throws {
        try fill(5)
        let worker = try holderOfThree()
        try server.ask("HSET", keys.campaign("c"), "left", "1")
        for job in worker.jobs { worker.settle(job, .ack, campaign: outcome(.sent)) }
        try worker.run("the figures") { try figures()["sent"] == "3" }
        #expect(try figures()["ended"] == nil)
        worker.campaignPlaces["c"] = 3
        worker.run("the others") { worker.jobs.count == 2 }
        for job in worker.jobs { worker.settle(job, .ack, campaign: outcome(.sent)) }
        try worker.run("the end") { try figures()["ended"] != nil }
    }

    @Test func `the figures of a batch count once`() throws {
        let redis = try RestrictedRedis()
        try redis.send(.register(.init(counter: 1, confirmed: 0, isExpected: false)))
        try redis.ask("HSET", redis.keys.campaign("c"), "kind", "list", "audience", "9", "left", "9")
        var (counts, unknown) = (CampaignCounts(of: "c"), CampaignCounts(of: "unknown"))
        counts.sentOne()
        unknown.sentOne()
        let figures = CampaignFigures(sequence: 1, counts: [counts, unknown])
        #expect(try redis.send(.figures(figures)) == .integer(-1), "the batch was not applied")
        try redis.ask("HSET", redis.keys.worker("w"), "settled", "1")
        #expect(try redis.send(.figures(figures)) == .integer(1))
        #expect(try redis.send(.figures(figures)) == .integer(0))
        #expect(try redis.ask("HMGET", redis.keys.campaign("c"), "sent", "left").items?.compactMap(\.text) == ["1", "8"])
        #expect(try redis.ask("EXISTS", redis.keys.campaign("unknown")) == .integer(0))
    }

    @Test func `after FLUSHALL the held tokens are back, and so is the job of their campaign`() throws {
        try fill(5)
        let worker = try holderOfThree()
        try server.ask("FLUSHALL")
        try worker.run("the tokens are put back") { try server.status().inFlight == 3 }
        #expect(try server.status().counters[.maybeDuplicate, default: 0] == 0)
        #expect(try figures()["head"] == String(decoding: order().head, as: UTF8.self) && figures()["stop"] == "20")
        worker.acknowledgeAll()
        worker.stop()
    }

    @Test func `held tokens that the audience has again count as possible duplicates`() throws {
        try fill(5)
        let worker = try holderOfThree()
        worker.places = 0
        // Redis is as before its first worker.
        try server.ask("FLUSHALL")
        try fill(5)
        try server.push([Self.job])
        try worker.run("the tokens are put back") { try server.status().inFlight == 3 }
        #expect(try server.status().counters[.maybeDuplicate, default: 0] == 3)
        worker.acknowledgeAll()
        worker.stop()
    }

    @Test(arguments: ["list", "set", "zset"])
    func `cancelled tokens are the last ones, and they are restored in their order`(kind: String) throws {
        try fill(kind, 100)
        let worker = try begun(order())
        var client = try RedisClient(settings: server.settings())
        let list = CampaignList(keys)
        #expect(try list.move(.cancel, 30, of: "c", &client) == 30)
        #expect(try list.move(.cancel, 20, of: "c", &client) == 20)
        #expect(try list.count(.undo, of: "c", &client) == 50 && list.count(.cancel, of: "c", &client) == 50)
        #expect(try list.move(.undo, 10, of: "c", &client) == 10)
        #expect(try figures()["cancelled"] == "40" && figures()["left"] == "60")
        #expect(try list.move(.undo, 1000, of: "c", &client) == 40)
        worker.campaignPlaces["c"] = 100
        worker.run("all tokens") { worker.jobs.count == 100 }
        let all = (0..<100).map(element)
        #expect(kind == "set" ? Set(worker.texts) == Set(all) : worker.texts == all)
        #expect(try list.move(.undo, 1000, of: "c", &client) == 0)
    }

    @Test func `a campaign that is cancelled as a whole has ended, and undo begins it again`() throws {
        try fill(100)
        let worker = try begun(order())
        var client = try RedisClient(settings: server.settings())
        let list = CampaignList(keys)
        #expect(try list.move(.cancel, .max, of: "c", &client) == 100)
        #expect(try server.ask("EXISTS", keys.audience("c")) == .integer(0) && figures()["ended"] != nil)
        #expect(try (server.ask("PTTL", keys.cancelledAudience("c")).integer ?? 0) > 80_000_000)
        #expect(try list.read(&client).map(\.remaining) == [0])
        #expect(try list.move(.undo, .max, of: "c", &client) == 100)
        #expect(try server.ask("PTTL", keys.audience("c")) == .integer(-1) && figures()["ended"] == nil)
        worker.campaignPlaces["c"] = 100
        worker.run("all tokens") { worker.jobs.count == 100 }
    }

    @Test func `several campaigns take turns`() throws {
        for name in ["a", "b"] { try fill("list", 200, key: "aud-\(name)") }
        let worker = Worker(server.settings())
        try server.push(["1", "2"])
        worker.run("the jobs") { worker.jobs.count == 2 }
        for (name, job) in zip(["a", "b"], worker.jobs) { worker.queue.launch(job, order("aud-\(name)", name: name)) }
        worker.run("both") { worker.campaigns.count == 2 }
        worker.acknowledgeAll()
        for name in ["a", "b"] { worker.campaignPlaces[name] = 25 }
        worker.run("tokens of both") { Set(worker.texts.prefix(50).map { $0.prefix(10) }).count == 2 }
    }

    @Test(arguments: ["campaign:", "campaign:x", "{}", "", "campaig:x\ny"])
    func `another element is no token`(text: String) { #expect(CampaignToken(bytes(text)) == nil) }

    @Test func `an element has the campaign and the token`() throws {
        let token = try #require(CampaignToken(bytes("campaign:a|b\nzz\nz")))
        #expect(token.campaign == "a|b" && token.token == bytes("zz\nz") && token.element == bytes("campaign:a|b\nzz\nz"))
    }

    @Test(arguments: [("foo", 12182), ("{foo}bar", 12182), ("123456789", 12739), ("x{}y", Keys.slot(of: "x{}y")), ("", 0)])
    func `the slot of a key is that of Redis Cluster`(key: String, slot: Int) { #expect(Keys.slot(of: key) == slot) }
}
