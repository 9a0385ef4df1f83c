import PushPool
import Testing

@testable import gaplessd

@Suite("The retry table")
struct RetryPolicyTests {
    private let policy = RetryPolicy(limit: 3, delays: [.seconds(1), .seconds(60), .seconds(900)])

    private func decide(
        _ status: Int, _ reason: String, attempts: Int = 0, resends: Int = 0, topicIsOurs: Bool = false,
        retryAfter: Duration? = nil
    ) -> RetryPolicy.Decision {
        let rejection = Rejection(status: status, reason: reason, retryAfter: retryAfter)
        let job = RetryPolicy.Standing(attempts: attempts, resends: resends, topicIsOurs: topicIsOurs)
        return policy.decide(.rejected(rejection), job, random: 0.5)
    }

    private func decide(_ outcome: Outcome, attempts: Int = 0, resends: Int = 0) -> RetryPolicy.Decision {
        policy.decide(outcome, .init(attempts: attempts, resends: resends, topicIsOurs: false), random: 0.5)
    }

    @Test func `200 is the end`() {
        #expect(decide(.delivered(apnsID: nil)) == .settleDelivered)
    }

    @Test(arguments: [
        (400, "BadCollapseId"), (400, "BadExpirationDate"), (400, "BadMessageId"), (400, "BadPriority"),
        (400, "InvalidPushType"), (400, "DuplicateHeaders"), (400, "MissingDeviceToken"), (400, "PayloadEmpty"),
        (404, "BadPath"), (405, "MethodNotAllowed"), (413, "PayloadTooLarge"), (418, "something new"), (301, ""),
    ])
    func `what the job itself got wrong is final at once`(status: Int, reason: String) {
        #expect(decide(status, reason) == .bury(nil))
    }

    @Test(arguments: ["Unregistered", "ExpiredToken", "a reason of next year"])
    func `410 declares the token dead`(reason: String) {
        #expect(decide(410, reason) == .bury(.dead))
    }

    @Test(arguments: ["BadDeviceToken", "DeviceTokenNotForTopic"])
    func `a token that a wrong environment would explain is only suspect`(reason: String) {
        #expect(decide(400, reason) == .burySuspect(.suspect))
    }

    @Test(arguments: ["BadTopic", "MissingTopic", "TopicDisallowed"])
    func `a refused topic is the job's fault only if the job named it`(reason: String) {
        #expect(decide(400, reason, topicIsOurs: false) == .burySuspect(nil))
        #expect(decide(400, reason, topicIsOurs: true) == .hold(.topic(reason)))
    }

    @Test(arguments: [
        "InvalidProviderToken", "MissingProviderToken", "BadCertificate", "BadCertificateEnvironment", "Forbidden",
        "UnrelatedKeyIdInToken", "BadEnvironmentKeyIdInToken", "a reason of next year",
    ])
    func `every other 403 is a fault of the credential and burns no job`(reason: String) {
        #expect(decide(403, reason, attempts: 3) == .hold(.credential(reason)))
    }

    @Test func `an expired provider token is renewed`() {
        #expect(decide(403, "ExpiredProviderToken", attempts: 3) == .renewToken)
    }

    @Test func `too many provider tokens hold the app, and count nothing`() {
        #expect(decide(429, "TooManyProviderTokenUpdates", attempts: 3) == .hold(.tokenUpdates))
    }

    @Test(arguments: [
        (429, "TooManyRequests"), (429, "another"), (500, "InternalServerError"), (503, "ServiceUnavailable"), (502, ""),
        (599, ""), (408, ""),
    ])
    func `what may pass is sent four times in all, after the delays of the settings`(status: Int, reason: String) {
        #expect(decide(status, reason, attempts: 0) == .retryLater(.seconds(1)))
        #expect(decide(status, reason, attempts: 1) == .retryLater(.seconds(60)))
        #expect(decide(status, reason, attempts: 2) == .retryLater(.seconds(900)))
        #expect(decide(status, reason, attempts: 3) == .bury(nil))
    }

    @Test func `the last delay repeats when there are more retries than delays`() {
        let patient = RetryPolicy(limit: 9, delays: [.seconds(1), .seconds(2)])
        let decision = patient.decide(.timedOut, .init(attempts: 8, resends: 0, topicIsOurs: false), random: 0.5)
        #expect(decision == .retryLater(.seconds(2)))
    }

    @Test func `jitter spreads a delay by a fifth both ways`() {
        let job = RetryPolicy.Standing(attempts: 0, resends: 0, topicIsOurs: false)
        #expect(policy.decide(.timedOut, job, random: 0) == .retryLater(.milliseconds(800)))
        #expect(policy.decide(.timedOut, job, random: 1) == .retryLater(.milliseconds(1200)))
    }

    @Test func `Retry-After wins, up to a quarter of an hour`() {
        #expect(decide(503, "ServiceUnavailable", retryAfter: .seconds(7)) == .retryLater(.seconds(7)))
        #expect(decide(503, "ServiceUnavailable", retryAfter: .seconds(86400)) == .retryLater(.seconds(900)))
    }

    @Test(arguments: [(503, "Shutdown"), (400, "IdleTimeout")])
    func `a session that takes its leave costs no retry the first time`(status: Int, reason: String) {
        #expect(decide(status, reason, attempts: 1, resends: 0) == .resend(mayDuplicate: false))
        #expect(decide(status, reason, attempts: 1, resends: 1) == .retryLater(.seconds(60)))
    }

    @Test func `a time-out is a counted retry`() {
        #expect(decide(.timedOut, attempts: 0) == .retryLater(.seconds(1)))
        #expect(decide(.timedOut, attempts: 3) == .bury(nil))
    }

    @Test func `what APNs never saw goes out again at once, and now and then by way of the queue`() {
        let refused = Outcome.notProcessed(.streamReset(code: 7))
        for resends in 0..<9 { #expect(decide(refused, attempts: 3, resends: resends) == .resend(mayDuplicate: false)) }
        #expect(decide(refused, attempts: 3, resends: 9) == .giveBack)
        #expect(decide(refused, attempts: 3, resends: 10) == .resend(mayDuplicate: false))
    }

    @Test func `what APNs may have seen goes out ten times uncounted, then counted`() {
        let cut = Outcome.maybeProcessed(.connectionLost("reset"))
        for resends in 0..<10 { #expect(decide(cut, resends: resends) == .resend(mayDuplicate: true)) }
        #expect(decide(cut, attempts: 1, resends: 10) == .retryLater(.seconds(60)))
        #expect(decide(cut, attempts: 3, resends: 10) == .bury(nil))
    }

    @Test func `a session that ends because of the credential holds the app`() {
        #expect(decide(.notProcessed(.goAway(code: 0, reason: "BadCertificate"))) == .hold(.credential("BadCertificate")))
        #expect(
            decide(.notProcessed(.dial("unknown root", isCredential: true))) == .hold(.credential("unknown root")))
        #expect(decide(.notProcessed(.dial("refused", isCredential: false))) == .resend(mayDuplicate: false))
        #expect(decide(.notProcessed(.goAway(code: 0, reason: "IdleTimeout"))) == .resend(mayDuplicate: false))
    }
}
