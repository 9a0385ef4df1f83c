import JSONBytes
import Platform
import PushPool
import Testing

@testable import RedisQueue
@testable import gaplessd

@Suite("Extreme figures in Redis")
struct ExtremeFigureTests {
    private static let numbers: [Int64] = [.min, .min + 1, -1, 0, 1, .max - 1, .max]

    /// The reply of the script that reads a status: any program may have written the counters and the fields of workers.
    private static func status(_ number: Int64) -> QueueStatus {
        func text(_ text: String) -> RedisReply { .string(Array(text.utf8)) }
        let fields = ["pid", "started", "claimed", "sent", "version"].flatMap { [text($0), text("\(number)")] }
        let worker = RedisReply.array([text("w"), .integer(number), .array(fields), .integer(number)])
        let counters = RedisReply.array(Counter.allCases.map { _ in text("\(number)") })
        let pause = RedisReply.array([
            .integer(number), text(""), .integer(number), text(#"{"until": \#(number), "since": \#(number)}"#),
        ])
        return QueueStatus(
            Array(repeating: RedisReply.integer(number), count: 5) + [counters, pause, .integer(number)]
                + Array(repeating: worker, count: 3))
    }

    @Test func `a status of several lists is printed and summed`() throws {
        let read = try SettingsFolder().read(settings()).settings
        for number in Self.numbers {
            let lists = ["a", "b", "c"].map { name in
                StatusDocument.List(
                    name: name, status: Self.status(number), reasons: [("r", 5)],
                    rates: ["w": .init(claimed: Double(number), sent: .infinity, interval: .nanoseconds(1))])
            }
            let report = StatusReport(StatusReading(taken: .now, lists: lists), read)
            #expect(report.lines(json: false).count > 10 && report.lines(json: true).count == 1)
            let before = DataSet(epoch: "a", claimed: .max, at: .min, server: "")
            let audits = lists.map { list in
                let data = DataSet(epoch: "a", claimed: .min, at: .max, server: "")
                return AuditReport(
                    list: list.name, audit: QueueAudit(status: list.status, data: data), unreadable: .max, before: before)
            }
            #expect(audits.allSatisfy { !$0.lines.isEmpty })
            _ = AuditReport.object(audits)
        }
    }

    @Test func `the rates between any two readings are finite`() {
        for (before, after) in Self.numbers.flatMap({ one in Self.numbers.map { (one, $0) } }) {
            let start = Instant.now
            var reading = RedisReading(taken: start + .nanoseconds(1), lists: [.init(name: "q", status: Self.status(after))])
            reading.measure(since: RedisReading(taken: start, lists: [.init(name: "q", status: Self.status(before))]))
            #expect(reading.lists[0].sentPerSecond?.isFinite == true)
            let system = SystemFacts(started: -1e300, residentBytes: .max, processorSeconds: 1e300, droppedLines: .max)
            let clock = WallClock(seconds: 1e15)
            var document = StatusDocument.sample(reading, nil, now: start)
            (document.system, document.wallClock) = (system, clock)
            #expect(throws: Never.self) { try JSONValue.parse(document.object.bytes) }
            var labels = AppLabels()
            let metrics = MetricsReport(reading, nil, system, &labels, now: start, wallClock: clock)
            #expect(metrics.text.contains("gapless_backlog"))
        }
    }

    @Test func `a certificate of any date has a number of days`() {
        for date in [-62_167_219_200, 0, 253_402_300_799] as [Int64] {
            for now in [0, 1_800_000_000, 253_402_300_799] as [Int64] {
                let facts = CertificateFacts(
                    subject: "s", userID: nil, topics: [], notBefore: date, notAfter: date, isForDevelopment: false,
                    isForProduction: false)
                var watch = CertificateWatch([("apns_cert_path", facts)], now: now)
                _ = watch.warnings(now: now)
                #expect((watch.wait(now: now) ?? 0) > 0)
                #expect(!CertificateExpiry.words(facts, now: now).isEmpty)
                _ = facts.faultOfDates(now: now)
            }
        }
    }
}
