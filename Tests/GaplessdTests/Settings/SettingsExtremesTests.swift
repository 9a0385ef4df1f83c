import Platform
import PushPool
import Testing

@testable import gaplessd

@Suite("Extreme numbers in settings")
struct SettingsExtremesTests {
    private static let numbers = [
        "0", "-0.0", "-1", "1e300", "-1e300", "1e999", "-1e999", "1e-320", "0.0009999", "9223372036854775807", "NaN",
        "-9223372036854775808", "9223372036854775808", "18446744073709551616", "1e19", "4294967296", "2147483648",
    ]
    /// The forms in which a key may take a number.
    private static let forms = ["N", "[N]", "[N, 1]", "\"N\"", "\"exponential:N\"", "\"h:N\""]

    @Test func `are faults or values within their bounds, for every key`() {
        let folder = SettingsFolder()
        var accepted = 0
        for key in SettingsTable.keys {
            for number in Self.numbers {
                for value in Self.forms.map({ $0.replacing("N", with: number) }) {
                    guard let reading = try? folder.read(settings("\"\(key.name)\": \(value)")) else { continue }
                    accepted += 1
                    for draft in reading.drafts { _ = key.text(draft) }
                    Self.check(reading.settings, "\(key.name): \(value)")
                }
            }
        }
        #expect(accepted > 100)
    }

    private static func check(_ settings: Settings, _ place: Comment) {
        let spans = settings.retryDelays + [settings.redis.lease, settings.drainTimeout]
        #expect(spans.allSatisfy { $0 >= .zero && $0 <= .seconds(2_592_000) }, place)
        let limits = [settings.limits, settings.fleetLimits]
        #expect(limits.allSatisfy { $0.pushesPerSecond.isFinite && $0.bitsPerSecond.isFinite }, place)
        for pool in settings.apps.map(\.pool) {
            #expect((1...100).contains(pool.sessions) && (1...100_000).contains(pool.maxConcurrentStreams), place)
            let spans = [pool.dialTimeout, pool.requestTimeout, pool.keepAlive, pool.pollInterval, pool.minSustain]
            #expect(spans.allSatisfy { $0 > .zero && $0 <= .seconds(3600) }, place)
            for failures in [0, 1, 64, .max] { _ = pool.dialBackoff.wait(afterFailures: failures, random: 0.999) }
        }
    }
}
