import Harness
import JSONBytes
import Platform
import Testing

@testable import gaplessd

@Suite("Many failed pushes in the log")
struct FailureLimitTests {
    private let start = Instant.now

    @Test func `are written up to ten per second on average, and then counted by reason`() {
        var limit = FailureLimit()
        let written = (0..<1000).count { _ in limit.admits(.final, now: start) }
        #expect(written == 100)
        #expect(limit.due == nil)
        let isFirst = limit.count(.final, "410 Unregistered", now: start)
        #expect(isFirst && limit.due == start + .seconds(1))
        let later = (0..<1199).count { _ in limit.count(.final, "410 Unregistered", now: start + .milliseconds(500)) }
        #expect(later == 0)
        _ = limit.count(.final, "400 BadDeviceToken", now: start)
        _ = limit.count(.retry, "503 ServiceUnavailable", now: start)
        let counts = limit.end().map(\.text)
        #expect(
            counts == [
                "1 more pushes are retried, in one second: 1 503 ServiceUnavailable.",
                "1,201 more pushes have failed, in one second; each is a dead letter: "
                    + "1,200 410 Unregistered, 1 400 BadDeviceToken.",
            ])
        let rest = limit.end()
        #expect(limit.due == nil && rest.isEmpty)
        let soon = (0..<1000).count { _ in limit.admits(.final, now: start + .seconds(2)) }
        #expect(soon == 20)
        let rested = (0..<1000).count { _ in limit.admits(.final, now: start + .seconds(1000)) }
        #expect(rested == 100)
    }

    @Test func `of one kind do not take the lines of another`() {
        var limit = FailureLimit()
        while limit.admits(.retry, now: start) {}
        let others = [FailureLimit.Kind.final, .badJob].map { limit.admits($0, now: start) }
        #expect(others == [true, true])
    }

    @Test func `have a bounded number of reasons of bounded length`() {
        var limit = FailureLimit()
        for number in 0..<1000 { _ = limit.count(.badJob, "\(number) " + String(repeating: "x", count: 1000), now: start) }
        let count = limit.end()[0]
        #expect(count.reasons.count == FailureLimit.mostReasons + 1 && count.total == 1000)
        #expect(count.reasons[0].reason == "others" && count.text.count < 2000)
    }

    @Test(arguments: [LogFormat.text, .json])
    func `end as one line for each kind, also if no other failure follows`(format: LogFormat) throws {
        let fixture = LogFixture(format: format)
        for _ in 0..<500 { fixture.log.final(identifier: "1", "410 Unregistered", job: Array("{}".utf8)) }
        for _ in 0..<300 { fixture.log.retrying(identifier: "1", "503 ServiceUnavailable", count: 1) }
        #expect(waitUntil { fixture.errors.contains("more pushes are retried") })
        let lines = fixture.finish().errors.split(separator: "\n").map(String.init)
        let (counts, singles) = (lines.filter { $0.contains(" more pushes ") }, lines.filter { !$0.contains(" more pushes ") })
        #expect((200...220).contains(singles.count), "\(singles.count)")
        if format == .json {
            let values = try counts.map { try JSONValue.parse(Array($0.utf8)) }
            #expect(values.allSatisfy { $0["event"]?.stringValue == "failures_counted" })
            #expect(values.reduce(0) { $0 + ($1["count"]?.integerValue ?? 0) } == 800 - Int64(singles.count))
        } else {
            for (start, end) in [
                ("[Gapless W] STAMP ", " 503 ServiceUnavailable."), ("[Gapless E] STAMP ", " 410 Unregistered."),
            ] {
                #expect(counts.contains { $0.hasPrefix(start) && $0.hasSuffix(end) }, "\(counts)")
            }
        }
    }

    @Test func `are counted at the end of the log as well`() {
        let fixture = LogFixture()
        for _ in 0..<150 { fixture.log.final(identifier: "1", "410 Unregistered", job: Array("{}".utf8)) }
        #expect(fixture.finish().errors.contains(" more pushes have failed, in one second; each is a dead letter: "))
    }
}
