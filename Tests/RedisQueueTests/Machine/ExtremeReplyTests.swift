import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("Extreme numbers in replies")
struct ExtremeReplyTests {
    private static let numbers: [Int64] = [.min, .min + 1, -2, -1, 0, 1, 2, 1 << 53, .max - 1, .max]

    @Test func `a record with an absurd connection number is left, and the worker continues under a new name`() {
        for taken in ["9223372036854775807", "9223372036854775806", "99999999999999999999", "rubbish"] {
            var machine = MachineFixture()
            machine.advance()
            machine.connected()
            machine.effects()
            machine.reply(
                MachineFixture.foreign(taken),
                to: .register(.init(counter: 1, confirmed: 0, isExpected: false)))
            #expect(machine.effects() == [.rename])
            machine.rename(to: "new")
            let registration = Call.register(.init(counter: 2, confirmed: 0, isExpected: false))
            #expect(machine.effects() == [.report(.renamed(worker: "new", number: taken)), .call(registration)])
        }
    }

    @Test(arguments: [Call.claim(MachineFixture.claim(1, 9)), .takeOver(.init(dead: .init(worker: "w", counter: 1), chunk: 1))])
    func `counts at the end of their range do not trap`(call: Call) {
        for number in Self.numbers {
            var machine = MachineFixture()
            machine.serve()
            let job = RedisReply.string(bytes("job"))
            machine.reply([.integer(number), .integer(number), .integer(number), .integer(number), .integer(1)], to: call)
            machine.reply([.integer(1), .integer(1), .integer(number), .integer(number), .integer(number)], to: call)
            machine.reply([.integer(number), .integer(1), job], to: call)
            #expect(machine.phase == .serving || machine.phase == .disconnected)
        }
    }

    @Test func `random numbers in any reply do not trap`() {
        let seed = UInt64.random(in: 0...999_999)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let batch = SettleBatch()
        let calls: [Call] = [
            .register(.init(counter: 1, confirmed: 0, isExpected: true)), .beat(.init(counter: 1, settled: 0)), .promote,
            .settle(batch),
            .adopt(.init(chunk: 1, level: 0, positions: 2, jobs: [.init(place: 1, bytes: [])])),
            .inspect(chunk: nil), .claim(MachineFixture.claim(1, 9)), .jobs(of: MachineFixture.claim(1, 9)), .nodes,
            .takeOver(.init(dead: .init(worker: "w", counter: 1), chunk: 1)), .unregister, .fetch(.init(chunk: 1, places: [0])),
            .pop(.jobs(count: 9)),
            .claim(MachineFixture.claim(1, 9, after: 0)),
        ]
        for _ in 0..<3000 {
            var machine = MachineFixture()
            machine.serve()
            machine.offer(100)
            for _ in 0..<4 {
                let items = (0..<Int.random(in: 0...12, using: &random)).map { _ -> RedisReply in
                    let number = Self.numbers.randomElement(using: &random) ?? 0
                    return Bool.random(using: &random) ? .integer(number) : .string(bytes(String(number)))
                }
                let reply: RedisReply =
                    if let number = items.first, Bool.random(using: &random) { number } else { .array(items) }
                machine.reply(reply, to: calls.randomElement(using: &random) ?? .promote)
                machine.advance()
                if let deadline = machine.deadline { machine.advance(to: deadline) }
            }
        }
    }

    @Test func `a status with counts at the end of their range does not trap`() {
        for number in Self.numbers {
            let worker = RedisReply.array([.string(bytes("w")), .integer(number), .array([]), .integer(number)])
            let counters = Counter.allCases.map { _ in RedisReply.string(bytes(String(number))) }
            let status = QueueStatus(
                Array(repeating: .integer(number), count: 5) + [
                    .array(counters), .integer(number), .integer(number), worker, worker,
                ])
            #expect(status.workers.count == 2)
            _ = status.unexplained
        }
    }

    @Test func `the nodes of a cluster are bounded`() {
        let nodes = (1...60_000).map { RedisReply.array([.string(bytes("10.0.0.1")), .integer($0)]) }
        let slots = [RedisReply.array([.integer(0), .integer(16_383)] + nodes)]
        #expect(Endpoint.nodes(slots, besides: nil).count == Endpoint.mostNodes)
        let far = RedisReply.array([.integer(0), .integer(1), .array([.string(bytes("h")), .integer(.max)])])
        #expect(Endpoint.nodes([far], besides: nil) == [])
    }
}
