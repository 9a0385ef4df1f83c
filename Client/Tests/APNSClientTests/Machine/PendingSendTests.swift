import PushPool
import Testing

@testable import APNSClient

@Suite("A send without a result")
struct PendingSendTests {
    private var send: PendingSend

    init() throws {
        var cache = SharedHeadersCache()
        let request = try PushRequest(MachineFixture.push, topic: PushTopic("com.example.app"), cache: &cache, time: 0)
        send = PendingSend(request, deadline: nil)
    }

    @Test mutating func `enters the pool once, and leaves it once`() {
        #expect(send.receipt("ID") == nil)
        let entries = (0..<2).map { _ in send.enterPool(SendID(7))?.id }
        #expect(entries == [7, nil])
        let exits = (0..<2).map { _ in send.leavePool() }
        #expect(exits == [true, false])
    }

    @Test mutating func `keeps the doubt and the last response of earlier requests`() {
        let lost = send.failed(.maybeProcessed(.connectionLost("reset")), on: SessionID(1))
        #expect(lost.cause == .connectionLost)
        #expect(lost.fate == .maybeSent)
        let busy = send.failed(.rejected(Rejection(status: 503, reason: "", retryAfter: .seconds(4))), on: SessionID(2))
        #expect(busy.response?.status == 503)
        let refused = send.failed(.notProcessed(.connectionLost("reset")), on: SessionID(3))
        #expect(refused.fate == .maybeSent)
        #expect(refused.response?.status == 503)
        #expect(refused.retryAfter == .seconds(4))
        #expect(refused.attempts == 3)
        _ = send.enterPool(SendID(7))
        #expect(send.receipt("ID") == Receipt(apnsID: "ID", attempts: 4, mayBeDuplicate: true))
        #expect(send.error(ended: .cancelled, .notSent).message == "the task was cancelled, after: \(refused.message)")
    }

    @Test mutating func `counts no request for a push that expired here`() {
        let error = send.failed(.outdated, on: SessionID(1))
        #expect(error.attempts == 0)
        #expect(error.fate == .notSent)
    }

    @Test mutating func `has the standing of its resends`() {
        send.resent(isCounted: true, mayDuplicate: false)
        send.resent(isCounted: false, mayDuplicate: true)
        #expect(send.standing == RetryPolicy.Standing(attempts: 1, resends: 1, doubtful: 1, isTopicFromSettings: true))
    }
}
