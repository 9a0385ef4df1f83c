import Platform

@testable import PushPool

/// A machine with its effects collected, and requests on streams 1, 3, 5 … in slots 0, 1, 2 …
struct SessionFixture {
    var machine: SessionMachine
    var effects: [SessionMachine.Effect] = []
    var answers = 0
    let start = Instant.now

    init(inFlight ids: [UInt64] = [], limit: Int = 10, limits: SessionMachine.Limits = .init()) {
        machine = SessionMachine(limits: limits, peerLimit: limit, now: start)
        for id in ids { push(id) }
    }

    mutating func push(_ id: UInt64, after: Duration = .zero) {
        let slot = machine.accepted(id, now: start + after)
        machine.opened(StreamID(2 * slot + 1), at: slot)
    }

    /// The effects of one fact.
    mutating func tell(_ fact: (inout SessionMachine, inout [SessionMachine.Effect]) -> Void) -> [SessionMachine.Effect] {
        effects = []
        fact(&machine, &effects)
        return effects
    }

    mutating func tick(after: Duration) -> [SessionMachine.Effect] { tell { [start] in $0.tick(now: start + after, &$1) } }

    mutating func observe(hasWindow: Bool, after: Duration = .zero) { machine.observed(hasWindow: hasWindow, now: start + after) }

    mutating func goAway(last: StreamID) -> [SessionMachine.Effect] {
        tell { $0.receivedGoAway(last: last, code: 0, reason: "x", &$1) }
    }

    mutating func answer(_ slot: Int) -> [SessionMachine.Effect] {
        tell { $0.answered(.delivered(apnsID: nil), stream: StreamID(2 * slot + 1), at: slot, &$1) }
    }

    mutating func reset(_ slot: Int, code: UInt32, wasSent: Bool = true, after: Duration = .zero) -> [SessionMachine.Effect] {
        tell { [start] in
            $0.streamReset(code: code, wasSent: wasSent, stream: StreamID(2 * slot + 1), at: slot, now: start + after, &$1)
        }
    }

    mutating func pong(_ number: UInt64, after: Duration) -> [SessionMachine.Effect] {
        tell { [start] in $0.pingAnswered(number, now: start + after, &$1) }
    }

    mutating func close(_ fault: SessionError, written: Set<Int> = []) -> [SessionMachine.Effect] {
        tell { $0.closed(because: fault, isWritten: written.contains, &$1) }
    }

    static let delivered = Outcome.delivered(apnsID: nil)
    static let away = SessionError.goAway(code: 0, reason: "x")
    static let lost = SessionError.connectionLost("cut")
}
