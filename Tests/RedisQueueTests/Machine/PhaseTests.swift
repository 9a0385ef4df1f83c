import Platform
import Testing

@testable import RedisQueue

@Suite("The phases of the queue machine")
struct PhaseTests {
    private static let registration: [RedisReply] = [
        .integer(0), .string(bytes("-1")), .string(bytes("epoch")), .integer(0), .integer(-1), .integer(0), .integer(0),
        .array([]), .string(bytes("-")), .integer(0),
    ]

    /// The steps of a life, each of which leads to the next phase.
    private let life: [(inout MachineFixture) -> Void] = [
        { $0.advance() },
        { $0.connected() },
        { $0.reply(Self.registration, to: .register(.init(counter: 1, confirmed: 0, isExpected: false))) },
        { $0.reply(.string(bytes("aof_enabled:1\r\n")), to: .info) },
        {
            $0.stop()
            $0.advance()
        },
        { $0.reply(.integer(0), to: .unregister) },
    ]

    /// A machine, and the phases that it has passed.
    private struct Course {
        var machine = MachineFixture()
        var passed = [QueueMachine.Phase.disconnected]

        mutating func run(_ steps: some Sequence<(inout MachineFixture) -> Void>) {
            for step in steps {
                step(&machine)
                passed.append(machine.phase)
            }
        }
    }

    @Test func `are those of the table, and every row of it happens`() {
        var courses = [Course()]
        courses[0].run(life)
        #expect(courses[0].passed == QueueMachine.Phase.allCases)
        for steps in 1..<life.count {
            var course = Course()
            course.run(life.prefix(steps) + [{ $0.lost("cut") }])
            courses.append(course)
        }
        for course in [[stop], life.prefix(4) + [doubt, stop, confirm]] {
            courses.append(Course())
            courses[courses.count - 1].run(course)
        }
        var seen: [QueueMachine.Phase: Set<QueueMachine.Phase>] = [:]
        for passed in courses.map(\.passed) {
            for (old, new) in zip(passed, passed.dropFirst()) where old != new { seen[old, default: []].insert(new) }
        }
        for phase in QueueMachine.Phase.allCases {
            #expect(seen[phase, default: []] == Set(QueueMachine.transitions[phase, default: [:]].keys))
        }
    }

    private static let late = start + .seconds(10)
    private let stop: (inout MachineFixture) -> Void = {
        $0.stop()
        $0.advance(to: late)
    }
    private let doubt: (inout MachineFixture) -> Void = { $0.advance(to: late) }
    private let confirm: (inout MachineFixture) -> Void = {
        $0.reply([.integer(0), .integer(-1)], to: .beat(.init(counter: 2, settled: 0)), at: late)
    }
}
