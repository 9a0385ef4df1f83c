import Platform
import PushPool
import Testing

@testable import gaplessd

@Suite("The log of failed dials")
struct DialOutageTests {
    private typealias Fixture = MachineFixture
    private let fixture = MachineFixture(MachineFixture.plan(apps: [nil, "beta"]))

    /// The lines about one failed dial.
    private func fails(_ reason: String = "refused", app: Int = 0, after pause: Duration = .zero) -> [String] {
        fixture.pass(pause)
        let error = SessionError.dial(reason, isCredential: false)
        return lines(.dialFailed(Fixture.session, address: "host:1", error, retryIn: .seconds(1)), app: app)
    }

    private func opens(app: Int = 0, after pause: Duration = .zero) -> [String] {
        fixture.pass(pause)
        return lines(.opened(Fixture.session, address: "host:1", streams: 9), app: app)
    }

    private func lines(_ event: PoolEvent, app: Int) -> [String] {
        fixture.effects { $0.happened(event, app: app, isCurrent: true, &$1) }.compactMap { effect in
            guard case .log(.sentence(_, let text, .sessionFailed?)) = effect else {
                guard case .log(.sentence(.info, let text, .sessionsRestored?)) = effect else { return nil }
                return text
            }
            return text
        }
    }

    @Test func `sessions that fail for one reason are one line`() {
        #expect(fails() == ["No session to host:1: refused. Next attempt in 1 s."])
        for _ in 0..<31 { #expect(fails() == []) }
    }

    @Test func `each of the first reasons has a line of its own`() {
        #expect(fails("refused").count == 1)
        #expect(
            fails("timed out") == [
                "No session to host:1: timed out. Next attempt in 1 s (2 failed dials in 0 s; refused: 1; timed out: 1)."
            ])
        #expect(fails("refused") == [] && fails("timed out") == [])
        #expect(fails("c").count == 1 && fails("d").count == 1)
        for number in 0..<100 { #expect(fails("reason \(number)") == []) }
        #expect(
            fails("refused", after: DialOutage.firstDistance) == [
                "No session to host:1: refused. Next attempt in 1 s "
                    + "(107 failed dials in 10 s; refused: 3; timed out: 2; c: 1; d: 1; other reasons: 100)."
            ])
    }

    @Test func `a long outage has lines at growing distances, and the last distance stays`() {
        var seconds: [Int] = []
        for second in 0...3000 where fails(after: second == 0 ? .zero : .seconds(1)) != [] { seconds.append(second) }
        #expect(seconds == [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430])
    }

    @Test func `the first session that opens ends the outage with one line`() {
        _ = (fails(), fails(), fails(after: .seconds(5)))
        #expect(opens(after: .seconds(60)) == ["host:1 is reachable after 3 failed dials in 1 min."])
        #expect(opens() == [])
        #expect(fails() == ["No session to host:1: refused. Next attempt in 1 s."])
        #expect(opens(after: .seconds(1)) == ["host:1 is reachable after 1 failed dial in 1 s."])
    }

    @Test func `apps have outages of their own`() {
        #expect(fails().count == 1)
        #expect(fails(app: 1) == [#"app "beta": No session to host:1: refused. Next attempt in 1 s."#])
        #expect(opens().count == 1 && fails(app: 1) == [])
    }

    @Test func `a reload makes the next failed dial visible`() {
        #expect(fails().count == 1 && fails() == [])
        _ = fixture.effects { $0.adopted(Fixture.plan(apps: [nil, "beta"]), &$1) }
        #expect(fails().count == 1 && fails(after: .seconds(9)) == [] && fails(after: .seconds(1)).count == 1)
    }
}
