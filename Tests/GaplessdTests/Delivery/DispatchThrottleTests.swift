import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: device tokens with too many requests")
struct DispatchThrottleTests {
    private typealias Fixture = MachineFixture
    private let fixture = MachineFixture(capacity: 500)
    private let limit = CircuitBreaker.graceAllowance

    init() { fixture.close() }

    /// Each job has a token of its own: newer jobs of a throttled token wait behind its retry.
    private func job(_ number: Int) -> String { Fixture.job("\(1_000_000 + number)") }

    @discardableResult
    private func throttle(_ number: Int) -> [DispatchEffect] { fixture.reject(fixture.send(job(number)), 429, "TooManyRequests") }

    /// Sends jobs as long as the app may, and returns their number.
    private func throttleAll(from first: Int) -> Int {
        var count = 0
        while fixture.offers()[0] > 0, count < 1000 {
            throttle(first + count)
            count += 1
        }
        return count
    }

    @Test func `200 jobs get a 429 in a second while every response is one, and each is a counted retry`() {
        for number in 0..<19 { throttle(number) }
        #expect(fixture.offers()[0] > limit)
        #expect(throttleAll(from: 100) == limit)
        #expect(fixture.deadline == fixture.now + .seconds(1))
        for second in 1...30 {
            fixture.pass(.seconds(1))
            #expect(fixture.tick() == [], "the app is not held")
            #expect(throttleAll(from: 1000 * second) == limit)
        }
        #expect(fixture.counters.retried == 19 + 31 * limit && fixture.counters.dead == 0)
        #expect(fixture.counters.released == 0 && fixture.inFlight == 0)
        let last = Fixture.job("ef", #""_gapless_RETRYING":3"#)
        fixture.pass(.seconds(1))
        _ = fixture.tick()
        #expect(fixture.reject(fixture.send(last), 429, "TooManyRequests").deadLetter == "TooManyRequests")
    }

    @Test func `acceptances end the limit at once, however long it has lasted`() {
        for second in 0..<10 {
            fixture.pass(.seconds(1))
            _ = fixture.tick()
            _ = throttleAll(from: 1000 * second)
        }
        fixture.pass(.seconds(1))
        _ = fixture.tick()
        let ids = (0..<30).map { fixture.send(job(20_000 + $0)) }
        #expect(fixture.offers()[0] < limit)
        for id in ids { _ = fixture.accept(id) }
        #expect(fixture.offers()[0] > limit)
        #expect(throttleAll(from: 30_000) > limit, "a burst of the usual size is admitted again")
    }

    @Test(arguments: [(200, ""), (410, "Unregistered"), (400, "PayloadEmpty")])
    func `nine in ten responses of 429 do not limit the app`(status: Int, reason: String) {
        for number in 0..<3_000 {
            if number % 10 < 9 {
                throttle(number)
            } else {
                let id = fixture.send(job(number))
                _ = status == 200 ? fixture.accept(id) : fixture.reject(id, status, reason)
            }
            #expect(fixture.offers()[0] > limit)
        }
    }

    @Test func `more than nine in ten limit it, so that the share of the others bounds the rate`() {
        var sent = 0
        for second in 0..<20 {
            fixture.pass(.seconds(1))
            _ = fixture.tick()
            var ofSecond = 0
            while fixture.offers()[0] > 0, ofSecond < 1000 {
                if sent % 20 < 19 { throttle(sent) } else { _ = fixture.accept(fixture.send(job(sent))) }
                (sent, ofSecond) = (sent + 1, ofSecond + 1)
            }
            if second > 0 { #expect(ofSecond < limit + limit / 10, "\(ofSecond)") }
        }
    }

    @Test func `a 429 of a Live Activity, which waits in its slot, limits no other job`() {
        for number in 0..<100 {
            let state = #"{"token":"\#(1_000_000 + number)","replaces":"s","push_type":"liveactivity","data":{"aps":{}}}"#
            _ = fixture.claim(state, isFromSlot: true)
            for id in fixture.sent() { _ = fixture.reject(id, 429, "TooManyRequests") }
        }
        #expect(fixture.counters.postponed == 100)
        #expect(fixture.offers()[0] > limit)
    }
}
