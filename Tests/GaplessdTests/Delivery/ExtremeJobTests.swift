import PushPool
import Testing

@testable import gaplessd

@Suite("Extreme numbers in jobs and responses")
struct ExtremeJobTests {
    private static let numbers = [
        "0", "-0", "-1", "1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615",
        "18446744073709551616", "1e308", "-1e308", "1e999", "1e-320", "9007199254740.992", "-9007199254740.991", "253402300800",
    ]
    private static let keys = [
        "identifier", "expiry", "expires_at", "not_before", "priority", "_gapless_RETRYING", "_gapless_deadline",
        "_gapless_doubtful",
    ]

    @Test(arguments: keys) func `end in a settlement, whatever APNs responds`(key: String) {
        for number in Self.numbers {
            for other in ["", #","expiry":9223372036854775807"#, #","_gapless_deadline":-9223372036854775808"#] {
                let job = MachineFixture.job("ab", "\"\(key)\":\(number)\(other)")
                for outcome in Self.outcomes { Self.run(job, outcome) }
            }
        }
    }

    private static let outcomes: [Outcome] =
        [Int64.min, -1, 0, .max].flatMap { time in
            [
                .rejected(Rejection(status: 410, reason: "Unregistered", timestamp: time)),
                .rejected(Rejection(status: 503, reason: "", retryAfter: .seconds(time))),
                .rejected(Rejection(status: 429, reason: "TooManyRequests", retryAfter: .seconds(time))),
                .rejected(Rejection(status: Int(time), reason: "")), .begun(expiration: time),
            ]
        } + [.delivered(apnsID: nil), .timedOut, .outdated, .maybeProcessed(.closedByUs), .notProcessed(.closedByUs)]

    private static func run(_ job: String, _ outcome: Outcome) {
        let fixture = MachineFixture(
            MachineFixture.plan(options: Settler.Options(loggedSuccesses: 1, recordsResults: true)))
        fixture.close()
        let settled = fixture.claim(job).settlements.count
        let sent = fixture.sent()
        #expect(settled + sent.count == 1, "\(job)")
        guard let id = sent.first else { return }
        switch outcome {
        case .delivered: _ = fixture.accept(id)
        case .begun(let expiration):
            fixture.machine.began(id, expiration: expiration)
            _ = fixture.reject(id, 503, "")
        default: _ = fixture.fail(id, outcome)
        }
        fixture.pass(.seconds(3600))
        _ = fixture.tick()
    }
}
