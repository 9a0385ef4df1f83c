import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

/// Redis and the log, as the effects of a machine fill them: a list, the jobs in flight, the records and the lines.
///
/// Its app sends every job at once, and APNs accepts each push unless the app is held. In `awaitsResponses` it does so only when
/// nothing else happens.
final class Footprint {
    /// The state of the app whose job is counted.
    enum State: CaseIterable {
        case sends, proving, awaitsResponses, held, paused, unreachable, slowed
    }

    private let fixture: MachineFixture
    private let state: State
    private var list: [[UInt8]] = []
    /// The side list of the app.
    private var aside: [[UInt8]] = []
    private var inFlight: [ClaimID: [UInt8]] = [:]
    private var claims: UInt64 = 100
    private var redis = 0
    private(set) var mostRedis = 0
    private(set) var mostInFlight = 0
    private(set) var log = 0
    private(set) var lines = 0
    private(set) var letters: [[UInt8]] = []
    private var delayed: [[UInt8]] = []
    /// The pushes without a response.
    private var open: [JobID] = []
    private(set) var accepted = 0
    private(set) var rejected = 0
    var isDone: Bool { list.isEmpty && aside.isEmpty && inFlight.isEmpty }

    init(_ state: State, apps: [String?], filter: WordFilter? = nil, results: Bool = false) {
        self.state = state
        var plan = MachineFixture.plan(apps: apps, options: .init(recordsResults: results))
        plan.filter = filter
        fixture = MachineFixture(plan, capacity: 1000)
        if state != .proving { fixture.close() }
        switch state {
        case .sends, .proving, .awaitsResponses: break
        case .held: _ = fixture.reject(fixture.send(), 403, "InvalidProviderToken")
        case .paused:
            let pause = QueuePause(.app("(top level)"), record: Array("{}".utf8))
            _ = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
        case .unreachable: fixture.machine.observed(.init(), app: 0)
        case .slowed: fixture.machine.observed(.init(capacity: 1000, limit: 2), app: 0)
        }
    }

    func push(_ job: [UInt8]) {
        add(job, to: &list)
        mostRedis = max(mostRedis, redis)
    }

    /// Claims as a worker does, and ends what went out. Claims also while the app takes nothing: for another app, or because the
    /// state began after the claim.
    func turn() {
        fixture.pass(.seconds(6))
        apply(fixture.tick())
        if !aside.isEmpty { fixture.aside("") } else { fixture.aside() }
        let places = fixture.asideOffers()["", default: 0]
        claim(take(places, from: &aside), wasClaimed: true)
        let offered = fixture.offers()[0]
        let before = claims
        claim(take(offered > 0 ? offered : 250, from: &list), wasClaimed: false)
        open += fixture.sent()
        if state == .awaitsResponses && claims > before { return }
        let sent = open
        open = []
        for id in sent {
            if state == .held {
                rejected += 1
                apply(fixture.reject(id, 403, "InvalidProviderToken"))
            } else {
                accepted += 1
                apply(fixture.accept(id))
            }
        }
    }

    private func take(_ most: Int, from jobs: inout [[UInt8]]) -> [[UInt8]] {
        var (taken, bytes) = ([[UInt8]](), 0)
        while let job = jobs.first, taken.count < min(250, most), bytes < 512 << 10 {
            taken.append(jobs.removeFirst())
            bytes += job.count
        }
        return taken
    }

    private func claim(_ jobs: [[UInt8]], wasClaimed: Bool) {
        if jobs.isEmpty { return }
        let claimed = jobs.map { job in
            claims += 1
            inFlight[ClaimID(claims)] = job
            return ClaimedJob(id: ClaimID(claims), bytes: job, wasClaimed: wasClaimed)
        }
        apply(fixture.effects { $0.happened(.claimed(claimed), list: 0, &$1) })
    }

    private func apply(_ effects: [DispatchEffect]) {
        for case .log(let entry) in effects { write(entry) }
        var heads: [(id: ClaimID, isAside: Bool, jobs: [[UInt8]])] = []
        mostInFlight = max(mostInFlight, inFlight.count)
        for settlement in effects.settlements {
            guard let job = inFlight.removeValue(forKey: settlement.id) else { continue }
            var head: [[UInt8]] = []
            switch settlement.effect {
            case .ack: break
            case .delay(let job, _, _): add(job, to: &delayed)
            case .deadLetter(let record, _, let field):
                add(record, to: &letters)
                if field != nil { redis += job.count }
            case .release(toTail: true): addToTail(job, settlement)
            case .replace(let job, toTail: true): addToTail(job, settlement)
            case .release: head = [job]
            case .replace(let job, _): head = [job]
            case .split(let parts): head = parts.parts(of: job)
            case .slot(let entry): add(entry.job, to: &delayed)
            }
            redis += head.reduce(0) { $0 + $1.count } + (settlement.feedback?.count ?? 0)
            redis += (settlement.result ?? []).texts.reduce(0) { $0 + $1.count }
            redis -= job.count
            heads.append((settlement.id, settlement.aside != nil, head))
        }
        heads.sort { $0.id < $1.id }
        list = heads.filter { !$0.isAside }.flatMap(\.jobs) + list
        aside = heads.filter(\.isAside).flatMap(\.jobs) + aside
        mostRedis = max(mostRedis, redis)
    }

    private func addToTail(_ job: [UInt8], _ settlement: Settlement) {
        if settlement.aside == nil { add(job, to: &list) } else { add(job, to: &aside) }
    }

    private func add(_ job: [UInt8], to jobs: inout [[UInt8]]) {
        jobs.append(job)
        redis += job.count
    }

    private func write(_ entry: LogEntry) {
        lines += 1
        switch entry {
        case .sentence(_, let text, _): log += text.utf8.count
        case .sent(let job, _): log += job.count
        case .retrying: log += 100
        case .final(_, _, let job, _): log += 100 + min(job.count, LogLines.mostJobBytes)
        case .badJob(let job, let error, _): log += 100 + error.description.utf8.count + min(job.count, LogLines.mostBadBytes)
        }
    }
}

@Suite("Amplification: a job needs at most ten times its own bytes in Redis and in the log")
struct AmplificationTests {
    /// A job, and how many of its tokens can be pushed.
    struct Kind: CustomTestStringConvertible, Sendable {
        var name: String
        var job: [UInt8]
        var good: Int
        var testDescription: String { name }

        init(_ name: String, good: Int, bad: Int = 0, _ members: String = "", text: String = "", payload: Int = 4000) {
            self.name = name
            self.good = good
            let filler = String(repeating: "x", count: payload) + text
            // Every third token is bad, as far as there are bad ones.
            var tokens: [String] = []
            var left = (good: good, bad: bad)
            while left.good + left.bad > 0 {
                if left.bad > 0, left.good == 0 || tokens.count % 3 == 0 {
                    tokens.append("\"bad token \(left.bad) \(String(repeating: "z", count: 48))\"")
                    left.bad -= 1
                } else {
                    let digits = String(left.good, radix: 16)
                    tokens.append("\"" + String(repeating: "0", count: 64 - digits.count) + digits + "\"")
                    left.good -= 1
                }
            }
            let target = good + bad == 1 ? "\"token\":\(tokens[0])" : "\"tokens\":[\(tokens.joined(separator: ","))]"
            job = Array(#"{"identifier":7,\#(target),"data":{"aps":{"alert":"\#(filler)"}}\#(members)}"#.utf8)
        }
    }

    static let kinds = [
        Kind("one token", good: 1), Kind("ten tokens", good: 10), Kind("1,000 tokens", good: 1000),
        Kind("40,000 tokens", good: 40_000), Kind("40,000 bad tokens", good: 10, bad: 40_000),
        Kind("ten bad tokens", good: 10, bad: 10), Kind("eleven bad tokens", good: 11, bad: 11),
        Kind("only bad tokens", good: 0, bad: 1000), Kind("1,000 tokens, a third bad", good: 700, bad: 300),
        Kind("not_before", good: 1000, #","not_before":1900000000"#), Kind("expired", good: 1000, #","expires_at":1"#),
        Kind("filtered", good: 1000, text: " darn"), Kind("unknown app", good: 1000, #","app":"absent""#),
    ]

    /// Bytes of a record, its result and its line besides those of the job.
    private static let constant = 4096

    @Test(arguments: kinds, [[nil], [nil, "beta"]] as [[String?]])
    func `in every state of its app`(kind: Kind, apps: [String?]) throws {
        for state in Footprint.State.allCases {
            let footprint = Footprint(state, apps: apps, filter: WordFilter(["darn"], action: .drop), results: kind.good == 0)
            footprint.push(kind.job)
            // The parts of a job of megabytes grow as those of the smaller ones do: its first turns are enough.
            for _ in 0..<(kind.job.count > 1 << 20 ? 3 : 25) { footprint.turn() }
            let most = 10 * kind.job.count + Self.constant
            // A token that was sent is a job of its own.
            let sent = 5000 * footprint.rejected
            let redis = Double(footprint.mostRedis) / Double(kind.job.count)
            let log = Double(footprint.log) / Double(kind.job.count)
            #expect(footprint.mostRedis <= most + sent, "\(state): \(redis) times")
            #expect(footprint.log <= most, "\(state): \(log) times")
        }
    }

    @Test(arguments: [Footprint.State.sends, .proving, .awaitsResponses, .slowed], [[nil], [nil, "beta"]] as [[String?]])
    func `each token is sent or dead-lettered once`(state: Footprint.State, apps: [String?]) throws {
        let footprint = Footprint(state, apps: apps)
        let (few, many) = (Kind("", good: 300, bad: 10, payload: 10), Kind("", good: 300, bad: 11, payload: 10))
        footprint.push(few.job)
        footprint.push(many.job)
        footprint.push(Kind("", good: 600).job)
        for _ in 0..<5000 where !footprint.isDone { footprint.turn() }
        #expect(footprint.isDone && footprint.accepted == 1200)
        #expect(footprint.lines == 11 && footprint.letters.count == 11)
        let tokens = footprint.letters.compactMap { DeadLetter(record: $0)?.token }
        #expect(Set(tokens).count == 10)
    }

    @Test func `a job for many devices with a large payload holds up neither the jobs behind it nor others of its kind`() {
        let footprint = Footprint(.awaitsResponses, apps: [nil])
        for number in 0..<3 { footprint.push(Kind("", good: 250, payload: 4000 + number).job) }
        for _ in 0..<20 { footprint.push(Kind("", good: 1, payload: 10).job) }
        let window = Splits.mostExpansion * Kind("", good: 250).job.count / Kind("", good: 1).job.count
        while footprint.accepted == 0 { footprint.turn() }
        // The rest of each of the three waits.
        #expect(footprint.accepted == footprint.mostInFlight - 3)
        #expect((3 * window + 17...3 * window + 23).contains(footprint.accepted), "\(footprint.accepted), window \(window)")
    }

    @Test func `all tokens of a job with a small payload go out at once`() {
        let footprint = Footprint(.awaitsResponses, apps: [nil])
        for number in 0..<3 { footprint.push(Kind("", good: 250, payload: 120 + number).job) }
        while footprint.accepted == 0 { footprint.turn() }
        #expect(footprint.accepted == 750)
    }

    /// A job of which some tokens are on their way, and the claim of the rest, which waits.
    private func waitingRest() -> (fixture: MachineFixture, rest: ClaimID) {
        let fixture = MachineFixture(capacity: 1000)
        fixture.close()
        var next: UInt64 = 100
        func claim(_ job: [UInt8]) -> [[UInt8]] {
            next += 1
            let claimed = ClaimedJob(id: ClaimID(next), bytes: job)
            let effects = fixture.effects { $0.happened(.claimed([claimed]), list: 0, &$1) }
            guard case .split(let parts)? = effects.settlements.first?.effect else { return [] }
            return parts.parts(of: job)
        }
        let parts = claim(Kind("", good: 100).job)
        for token in claim(parts[0]) { #expect(claim(token).isEmpty) }
        #expect(parts.count == 2 && claim(parts[1]).isEmpty)
        return (fixture, ClaimID(next))
    }

    @Test func `a rest goes on when half of the tokens before it have ended`() {
        let (fixture, rest) = waitingRest()
        let sent = fixture.sent()
        #expect(sent.count > 2)
        for (number, id) in sent.enumerated() {
            _ = fixture.accept(id)
            let ids = fixture.tick().settlements.map(\.id)
            #expect(ids == (sent.count - number - 1 == sent.count / 2 ? [rest] : []))
        }
    }

    @Test func `a rest that another worker has taken over is not split`() {
        let (fixture, rest) = waitingRest()
        _ = fixture.effects { $0.happened(.disowned([rest], .takenOver), list: 0, &$1) }
        let sent = fixture.sent()
        #expect(!sent.isEmpty)
        for id in sent { #expect(fixture.accept(id).settlements.count == 1) }
        #expect(fixture.tick().settlements.isEmpty)
    }

    @Test func `a rest returns to the list once at the end of the process`() {
        let (fixture, rest) = waitingRest()
        _ = fixture.effects { $0.stopSignalReceived(&$1) }
        let effects = fixture.effects { $0.poolsClosed(&$1) }.settlements
        #expect(effects.count { $0.id == rest } == 1 && effects.last?.effect == .release(toTail: false))
        #expect(fixture.tick().settlements.isEmpty)
    }

    @Test func `a job that is too large has a short record and a short line`() {
        let fixture = MachineFixture()
        let head = Array(repeating: UInt8(ascii: "x"), count: 1024)
        let job = ClaimedJob(id: ClaimID(1), bytes: head, fullSize: ClaimedJob.mostBytes + 1)
        let effects = fixture.effects { $0.happened(.claimed([job]), list: 0, &$1) }
        guard case .deadLetter(let record, _, .some) = effects.settlements[0].effect else { return #expect(Bool(false)) }
        #expect(record.count < 2048 && effects.count == 2)
    }

    @Test func `the parts of a job with short tokens and a large frame repeat it a few times`() throws {
        let members = String(repeating: "x", count: 60_000)
        let tokens = Array(repeating: #""a""#, count: 20_000).joined(separator: ",")
        let job = Array(#"{"tokens":[\#(tokens)],"data":{"aps":{}},"x":"\#(members)"}"#.utf8)
        let footprint = Footprint(.slowed, apps: [nil])
        footprint.push(job)
        for _ in 0..<40 { footprint.turn() }
        #expect(footprint.mostRedis < 10 * job.count, "\(Double(footprint.mostRedis) / Double(job.count)) times")
        #expect(footprint.accepted > 0)
    }
}
