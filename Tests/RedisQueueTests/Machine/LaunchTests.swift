import Platform
import Testing

@testable import RedisQueue

@Suite("The launch of a campaign")
struct LaunchTests {
    private var machine = MachineFixture()
    private var launch: CampaignLaunch

    /// A worker that has claimed the job of a campaign, and has sent the launch.
    init() {
        let job = ClaimedJob(id: id(1, 0), bytes: bytes("job"))
        let order = CampaignOrder(name: "c", source: "aud", head: bytes("{"), tail: bytes("}"), over: nil, stopAt: 0)
        launch = CampaignLaunch(claim: job, order: order)
        launch.number = 1
        machine.serve()
        machine.offer(100)
        machine.advance()
        machine.claim(["job"], asked: 100, drained: 1)
        machine.effects()
        machine.launch(job, order)
    }

    private mutating func launches() -> Int { machine.effects().count { $0 == .call(.launch(launch)) } }

    private mutating func answers() -> Int {
        machine.effects().count { if case .report(.launched) = $0 { true } else { false } }
    }

    private mutating func begun(at now: Instant = start) {
        machine.reply([.string(bytes("BEGUN")), .integer(3)], to: .launch(launch), at: now)
    }

    /// - Parameter chunks: those that Redis has for this worker.
    private mutating func reconnect(chunks: KeyValuePairs<String, String>, taken: String = "-") {
        machine.lost("cut")
        machine.advance(to: start + .seconds(1))
        machine.register(counter: 2, isExpected: true, chunks: chunks, taken: taken)
        machine.advance(to: start + .seconds(1))
    }

    @Test mutating func `is sent at once, and only once, and is reported once`() {
        #expect(launches() == 1)
        machine.advance(to: start + .seconds(1))
        #expect(launches() == 0)
        begun()
        #expect(machine.effects() == [.report(.launched(launch.claim, .begun(id: "c", tokens: 3)))])
        begun()
        #expect(answers() == 0)
    }

    @Test mutating func `is not sent again when a doubt about the lease ends`() {
        let late = start + .seconds(10)
        machine.advance(to: late)
        machine.effects()
        machine.reply([.integer(0), .integer(-1)], to: .beat(.init(counter: 2, settled: 0)), at: late)
        machine.advance(to: late)
        #expect(machine.phase == .serving && launches() == 0)
        begun(at: late)
        #expect(answers() == 1)
    }

    @Test mutating func `is sent again on a new connection, which may have lost the reply`() {
        machine.effects()
        reconnect(chunks: ["1": "0:1"])
        launch.number = 2
        #expect(machine.phase == .serving && launches() == 1)
        begun()
        #expect(answers() == 1)
    }

    @Test mutating func `is sent again before the settlement of its job if Redis has forgotten it`() {
        begun()
        machine.settle(id(1, 0), .split(into: JobParts(texts: [])))
        machine.advance(to: start + .seconds(1))
        var batch = SettleBatch()
        for case .call(.settle(let sent)) in machine.effects() { batch = sent }
        #expect(batch.launched == 1)
        machine.reply(.string(bytes(Lua.Status.gap.rawValue)), to: .settle(batch))
        #expect(machine.phase == .disconnected)
        reconnect(chunks: ["1": "0:1"])
        (launch.number, batch.launched) = (2, 2)
        let effects = machine.effects()
        let places = [Call.launch(launch), .settle(batch)].map { call in effects.firstIndex(of: .call(call)) }
        #expect(places.allSatisfy { $0 != nil } && places.compactMap { $0 } == places.compactMap { $0 }.sorted())
    }

    @Test mutating func `is left to the worker that has taken over the job`() {
        machine.effects()
        reconnect(chunks: [:], taken: "1")
        #expect(machine.phase == .serving && machine.held.isEmpty && launches() == 0)
    }

    @Test mutating func `is not reported by a stopping queue, which returns the job`() {
        machine.effects()
        machine.stop()
        machine.advance()
        begun()
        machine.advance()
        let effects = machine.effects()
        var settled: [ClaimID] = []
        for case .call(.settle(let batch)) in effects { settled += batch.ids }
        #expect(settled == [id(1, 0)])
        #expect(!effects.contains { if case .report(.launched) = $0 { true } else { false } })
    }
}
