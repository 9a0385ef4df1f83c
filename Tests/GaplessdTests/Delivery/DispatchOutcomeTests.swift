import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: outcomes")
struct DispatchOutcomeTests {
    private typealias Fixture = MachineFixture
    private let fixture = MachineFixture()

    init() { fixture.close() }

    private func delay(_ effects: [DispatchEffect]) -> (job: String, after: Duration, isRetry: Bool)? {
        guard case .delay(let job, .after(let pause), let isRetry) = effects.settlements.first?.effect else { return nil }
        return (String(decoding: job, as: UTF8.self), pause, isRetry)
    }

    @Test mutating func `503 is a counted retry with its marker and its first deadline`() throws {
        let id = fixture.send()
        let effects = fixture.reject(id, 503, "ServiceUnavailable")
        let retry = try #require(delay(effects))
        #expect(retry.isRetry && retry.after == .seconds(1))
        #expect(retry.job.contains(#""_gapless_RETRYING":1"#) && retry.job.contains(#""_gapless_deadline":1800007200"#))
        #expect(effects.first == .log(.retrying(identifier: "0", reason: "503 ServiceUnavailable", count: 1)))
        #expect(fixture.counters.retried == 1 && fixture.inFlight == 0)
    }

    @Test mutating func `a retry that would come after the deadline is an expiry`() {
        let id = fixture.send(Fixture.job("ab", #""expires_at":1800000000"#))
        #expect(fixture.reject(id, 503, "ServiceUnavailable").deadLetter == "Expired")
    }

    @Test mutating func `a retry avoids the session that failed it`() {
        let id = fixture.send()
        _ = fixture.reject(id, 500, "InternalServerError")
        _ = fixture.claim(Fixture.job("ab", #""_gapless_RETRYING":1"#))
        var batch: [Notification] = []
        fixture.machine.takeOutgoing(of: 0, into: &batch)
        #expect(batch.map(\.avoiding) == [Fixture.session])
    }

    @Test mutating func `after retry_limit resends the job is a dead letter`() {
        let id = fixture.send(Fixture.job("ab", #""_gapless_RETRYING":3"#))
        #expect(fixture.reject(id, 503, "ServiceUnavailable").deadLetter == "ServiceUnavailable")
    }

    @Test mutating func `410 is a dead letter with an entry in the feedback list`() throws {
        let id = fixture.send()
        let effects = fixture.reject(id, 410, "Unregistered")
        #expect(effects.deadLetter == "Unregistered")
        let feedback = try #require(effects.settlements.first?.feedback)
        #expect(String(decoding: feedback, as: UTF8.self).contains(#""verdict": "dead""#))
    }

    @Test mutating func `a request that APNs did not process goes out again uncounted`() {
        let id = fixture.send()
        #expect(fixture.fail(id, .notProcessed(.streamReset(code: 7))) == [])
        #expect(fixture.sent() == [id])
        #expect(
            fixture.accept(id).settlements == [Settlement(id: ClaimID(2), effect: .ack, resends: 1)],
            "its resend is recorded with its settlement")
        #expect(fixture.counters.resent == 1)
    }

    @Test mutating func `after ten refusals in a row a job rests a second in Redis`() throws {
        let id = fixture.send()
        for _ in 0..<9 {
            #expect(fixture.fail(id, .notProcessed(.streamReset(code: 7))) == [])
            #expect(fixture.sent() == [id])
        }
        let pause = try #require(delay(fixture.fail(id, .notProcessed(.streamReset(code: 7)))))
        #expect(pause.after == .seconds(1) && !pause.isRetry)
    }

    @Test mutating func `a request that APNs may have processed counts as a possible duplicate before it is sent again`() {
        let id = fixture.send()
        #expect(fixture.fail(id, .maybeProcessed(.connectionLost("reset"))) == [.countMaybeDuplicate(list: 0)])
        #expect(fixture.sent() == [id])
        #expect(fixture.accept(id).settlements == [Settlement(id: ClaimID(2), effect: .ack, resends: 1)])
    }

    @Test mutating func `a push that began keeps the deadline that its session gave it`() throws {
        let id = fixture.send()
        fixture.machine.began(id, expiration: 1_800_007_205)
        let retry = try #require(delay(fixture.fail(id, .timedOut)))
        #expect(retry.job.contains(#""_gapless_deadline":1800007205"#))
    }

    @Test mutating func `an expired provider token is renewed, and the job goes out again`() {
        let id = fixture.send()
        let renewal = DispatchEffect.renewToken(for: id, refusedOn: Fixture.session, app: 0)
        #expect(fixture.reject(id, 403, "ExpiredProviderToken") == [renewal])
        #expect(fixture.effects { $0.renewedToken(.renewed, for: id, refusedOn: Fixture.session, &$1) } == [])
        #expect(fixture.sent() == [id])
    }

    @Test(arguments: [SessionPool.TokenRenewal.tooYoung, .noSigningKey])
    mutating func `a provider token that cannot be renewed holds the app`(renewal: SessionPool.TokenRenewal) {
        let id = fixture.send()
        _ = fixture.reject(id, 403, "ExpiredProviderToken")
        let effects = fixture.effects { $0.renewedToken(renewal, for: id, refusedOn: Fixture.session, &$1) }
        #expect(effects.releases(2))
        #expect(effects.contains(.log(.held(app: "", .credential("ExpiredProviderToken")))))
    }

    @Test mutating func `a job of another worker is neither settled nor sent again`() {
        let id = fixture.send()
        let effects = fixture.effects { $0.happened(.disowned([ClaimID(2)], .takenOver), list: 0, &$1) }
        #expect(effects == [.withdraw(.forget([id]), app: 0), .log(.disowned(1, .takenOver))])
        #expect(fixture.fail(id, .notProcessed(.streamReset(code: 7))) == [])
        #expect(fixture.sent() == [] && fixture.inFlight == 0)
    }

    @Test mutating func `an attempt for a job that another worker took over still counts as a possible duplicate`() {
        let onStream = fixture.send()
        _ = fixture.effects { $0.happened(.disowned([ClaimID(2)], .takenOver), list: 0, &$1) }
        #expect(fixture.fail(onStream, .timedOut) == [.countMaybeDuplicate(list: 0)])
    }

    @Test mutating func `after a stop signal, a job with an expired provider token goes back at once`() {
        let id = fixture.send()
        _ = fixture.effects { $0.stopSignalReceived(&$1) }
        #expect(fixture.reject(id, 403, "ExpiredProviderToken").releases(2))
    }

    @Test mutating func `a job whose session reports nothing before the exit counts as a possible duplicate`() {
        _ = fixture.send()
        _ = fixture.effects { $0.stopSignalReceived(&$1) }
        let effects = fixture.effects { $0.poolsClosed(&$1) }
        #expect(effects.releases(2) && effects.contains(.countMaybeDuplicate(list: 0)))
    }

    @Test mutating func `jobs that another worker took over before they were sent are forgotten`() {
        let waiting = fixture.send()
        _ = fixture.claim(Fixture.job())
        _ = fixture.effects { $0.happened(.disowned([ClaimID(2), ClaimID(3)], .takenOver), list: 0, &$1) }
        #expect(fixture.sent() == [])
        #expect(fixture.withdraw([waiting], .forget([waiting])) == [])
        #expect(fixture.inFlight == 0)
    }
}
