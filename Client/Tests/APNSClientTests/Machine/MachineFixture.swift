import Platform
import PushPool

@testable import APNSClient

/// A machine with the clock and the pool that it sees.
struct MachineFixture {
    var machine: SendMachine
    var now = Instant.now
    let start: Instant
    /// The numbers of the notifications that went to the pool, in order.
    var pooled: [SendID] = []
    /// The sessions that the last notifications avoid.
    var avoided: [SessionID?] = []
    static let session = SessionID(1)

    init(capacity: Int = 1000, _ change: (inout SendMachine.Options) -> Void = { _ in }) {
        var options = SendMachine.Options(
            topic: PushTopic("com.example.app"), policy: RetryPolicy(limit: 2, delays: [.seconds(1), .seconds(5)]),
            resendsMaybeSent: true, holdsAfterSuspectTokens: true, deadline: .seconds(60))
        change(&options)
        machine = SendMachine(options)
        machine.observed(capacity: capacity)
        start = now
    }

    static let push = try! Push(to: .device("00fc13adff78"), json: Array(#"{"aps":{"alert":"Hi"}}"#.utf8))

    /// Passes facts and the end of the turn.
    @discardableResult
    mutating func tell(_ facts: (inout SendMachine, Instant, inout [SendEffect]) -> Void) -> [SendEffect] {
        var effects: [SendEffect] = []
        facts(&machine, now, &effects)
        machine.turnEnded(now: now, &effects)
        var batch: [PushPool.Notification] = []
        machine.takeOutgoing(into: &batch)
        pooled += batch.map { SendID($0.id) }
        avoided = batch.map(\.avoiding)
        return effects
    }

    mutating func send(_ push: Push = push) -> (id: SendID, effects: [SendEffect]) {
        let id = machine.reserve()
        let effects = tell { $0.submitted(id, push, now: $1, time: 1_700_000_000, &$2) }
        return (id, effects)
    }

    mutating func end(
        _ id: SendID, _ outcome: Outcome, isCurrent: Bool = true, decision: RetryRule.Decision? = nil
    ) -> [SendEffect] {
        tell {
            $0.ended(id, outcome, on: Self.session, isCurrent: isCurrent, now: $1, random: 0.5, decision: decision, &$2)
        }
    }

    mutating func reject(_ id: SendID, _ status: Int, _ reason: String, retryAfter: Duration? = nil) -> [SendEffect] {
        end(id, .rejected(Rejection(status: status, reason: reason, retryAfter: retryAfter)))
    }

    /// Sends a push that APNs accepts, so that the circuit breaker is closed.
    mutating func warmUp() {
        let id = send().id
        _ = end(id, .delivered(apnsID: nil))
        pooled = []
    }

    mutating func advance(_ time: Duration) -> [SendEffect] {
        now += time
        return tell { $0.tick(now: $1, &$2) }
    }
}

extension [SendEffect] {
    /// The errors of the sends that failed.
    var errors: [APNSError] {
        compactMap { if case .settle(_, .failure(let error)) = $0 { error } else { nil } }
    }

    var receipts: [Receipt] {
        compactMap { if case .settle(_, .success(let receipt)) = $0 { receipt } else { nil } }
    }
}
