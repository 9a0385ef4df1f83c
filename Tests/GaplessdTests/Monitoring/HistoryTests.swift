import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The figures of the last hour")
struct HistoryTests {
    private let start = Instant.now

    private func reading(sent: Int64, backlog: Int = 0, age: Duration? = nil) -> RedisReading {
        var status = QueueStatus()
        status.counters = [.sent: sent]
        status.backlog = backlog
        return RedisReading(taken: start, lists: [.init(name: "q", status: status, age: age)])
    }

    private func snapshot(accepted: Int, rejected: Int = 0, latency: Duration = .milliseconds(30)) -> ProcessSnapshot {
        var app = ProcessSnapshot.App()
        for _ in 0..<accepted {
            app.responses.countAcceptance()
            app.responses.record(claimed: start, .init(sent: start, ended: start + latency))
        }
        for _ in 0..<rejected { _ = app.responses.count(.rejected(Rejection(status: 410, reason: "Unregistered"))) }
        return ProcessSnapshot(apps: [app], lists: [])
    }

    @Test func `a point has the rates of ten seconds`() {
        var history = History(lists: ["q"])
        history.observe(reading(sent: 100), snapshot(accepted: 0), now: start)
        for second in 1..<10 { history.observe(reading(sent: 999), snapshot(accepted: 1), now: start + .seconds(second)) }
        #expect(history.count == 0)
        history.observe(
            reading(sent: 150, backlog: 7, age: .seconds(3)), snapshot(accepted: 20, rejected: 10), now: start + .seconds(10))
        #expect(history.count == 1)
        #expect(history.lists[0].sent == [5])
        #expect(history.lists[0].backlog == [7])
        #expect(history.lists[0].age == [3])
        #expect(history.median.count == 1 && history.median[0] > 0.02 && history.median[0] < 0.05)
        #expect(history.responses.map(\.kind.reason) == ["Accepted", "Unregistered"])
        #expect(history.responses.map(\.series) == [[2], [1]])
        #expect(history.recent.mapValues(\.total) == ["(top level)": 20])
    }

    @Test func `a Redis that is away and a process that slept leave unknown points`() {
        var history = History(lists: ["q"])
        history.observe(reading(sent: 0), snapshot(accepted: 0), now: start)
        history.observe(RedisReading(taken: start, fault: "away"), snapshot(accepted: 5), now: start + .seconds(10))
        #expect(history.lists[0].sent[0].isNaN && history.lists[0].age[0].isNaN)
        #expect(history.responses.map(\.series) == [[0.5]])
        history.observe(reading(sent: 40), snapshot(accepted: 5), now: start + .seconds(50))
        #expect(history.count == 5)
        #expect(history.lists[0].sent.count { $0.isNaN } == 5)
        history.observe(reading(sent: 60), snapshot(accepted: 5), now: start + .seconds(60))
        #expect(history.lists[0].sent.last == 2)
    }

    @Test func `keeps one hour, whatever happens`() {
        var history = History(lists: ["q"])
        for step in 0..<1000 {
            var snapshot = snapshot(accepted: 0)
            let reason = ["Unregistered", "BadDeviceToken", "ExpiredToken", "Forbidden", "BadTopic", "BadPath"][step % 6]
            for status in [400, 403, 404, 405, 410, 429] {
                _ = snapshot.apps[0].responses.count(.rejected(Rejection(status: status, reason: reason)))
            }
            history.observe(reading(sent: Int64(step)), snapshot, now: start + .seconds(10 * step))
        }
        #expect(history.count == History.most)
        #expect(history.lists[0].sent.count == History.most)
        #expect(history.responses.count <= 12)
        #expect(history.responses.allSatisfy { $0.series.count == History.most })
        #expect(history.others.count == History.most)
    }

    @Test func `a kind of response that ended an hour ago makes room`() {
        var history = History(lists: ["q"])
        history.observe(reading(sent: 0), snapshot(accepted: 0), now: start)
        for step in 1...(History.most + 2) {
            history.observe(reading(sent: 0), snapshot(accepted: 0, rejected: 1), now: start + .seconds(10 * step))
        }
        #expect(history.responses.isEmpty)
    }
}
