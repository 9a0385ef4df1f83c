import Platform
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The time to drain a list")
struct ListFlowTests {
    private let start = Instant.now

    private func status(sent: Int64, dead: Int64 = 0) -> QueueStatus {
        var status = QueueStatus()
        status.counters = [.sent: sent, .dead: dead]
        return status
    }

    @Test func `follows from the rate at which jobs leave the queue`() {
        var flow = ListFlow()
        flow.looked(status(sent: 1000), nil, at: start)
        #expect(flow.drain(of: 500) == nil)
        #expect(flow.drain(of: 0) == 0)
        flow.looked(status(sent: 1080, dead: 20), nil, at: start + .seconds(1))
        #expect(flow.drain(of: 500) == 5)
    }

    @Test func `is unknown while nothing leaves`() {
        var flow = ListFlow()
        flow.looked(status(sent: 7), nil, at: start)
        flow.looked(status(sent: 7), nil, at: start + .seconds(1))
        #expect(flow.drain(of: 1) == nil)
    }

    @Test func `follows a change of the rate within some seconds`() throws {
        var flow = ListFlow()
        var sent: Int64 = 0
        for second in 0..<60 {
            sent += second < 20 ? 1000 : 100
            flow.looked(status(sent: sent), nil, at: start + .seconds(second))
        }
        let rate = try #require(flow.settledPerSecond)
        #expect(rate > 100 && rate < 130)
    }
}
