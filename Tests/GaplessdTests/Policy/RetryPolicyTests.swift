import PushPool
import Testing

@testable import gaplessd

@Suite("The retry table")
struct RetryPolicyTests {
    private let policy = RetryPolicy(limit: 3, delays: [.seconds(1), .seconds(60), .seconds(900)])

    private func decide(
        _ status: Int, _ reason: String, attempts: Int = 0, resends: Int = 0, isTopicFromSettings: Bool = false,
        namesChannel: Bool = false, retryAfter: Duration? = nil
    ) -> RetryPolicy.Decision {
        let rejection = Rejection(status: status, reason: reason, retryAfter: retryAfter)
        let job = RetryPolicy.Standing(
            attempts: attempts, resends: resends, isTopicFromSettings: isTopicFromSettings, namesChannel: namesChannel)
        return policy.decide(.rejected(rejection), job, random: 0.5)
    }

    private func decide(_ outcome: Outcome, attempts: Int = 0, resends: Int = 0, doubtful: Int = 0) -> RetryPolicy.Decision {
        policy.decide(
            outcome, .init(attempts: attempts, resends: resends, doubtful: doubtful, isTopicFromSettings: false), random: 0.5)
    }

    /// One case for each row of the table of answers, in its order.
    static let cases: [(status: Int, reason: String, decision: RetryPolicy.Decision)] = [
        (400, "BadDeviceToken", .suspect),
        (400, "DeviceTokenNotForTopic", .suspect),
        (410, "Unregistered", .deadLetter(.dead)),
        (410, "ExpiredToken", .deadLetter(.dead)),
        (410, "a reason of next year", .deadLetter(.dead)),
        (400, "MissingDeviceToken", .deadLetter(nil)),
        (404, "BadPath", .deadLetter(nil)),
        (400, "BadCollapseId", .deadLetter(nil)),
        (400, "BadExpirationDate", .deadLetter(nil)),
        (400, "BadPriority", .deadLetter(nil)),
        (400, "InvalidPushType", .deadLetter(nil)),
        (400, "PayloadEmpty", .deadLetter(nil)),
        (413, "PayloadTooLarge", .deadLetter(nil)),
        (400, "BadMessageId", .deadLetter(nil)),
        (400, "BadTopic", .deadLetter(nil)),
        (400, "TopicDisallowed", .deadLetter(nil)),
        (400, "MissingTopic", .deadLetter(nil)),
        (400, "DuplicateHeaders", .deadLetter(nil)),
        (405, "MethodNotAllowed", .deadLetter(nil)),
        (400, "IdleTimeout", .resend(mayDuplicate: false)),
        (403, "TopicMismatch", .deadLetter(nil)),
        (403, "BadTopic", .deadLetter(nil)),
        (403, "MissingTopic", .deadLetter(nil)),
        (403, "TopicDisallowed", .deadLetter(nil)),
        (403, "BadChannelId", .deadLetter(nil)),
        (403, "ChannelNotRegistered", .deadLetter(nil)),
        (403, "ExpiredProviderToken", .renewToken),
        (403, "InvalidProviderToken", .hold(.credential("InvalidProviderToken"))),
        (403, "UnrelatedKeyIdInToken", .hold(.credential("UnrelatedKeyIdInToken"))),
        (403, "BadEnvironmentKeyIdInToken", .hold(.credential("BadEnvironmentKeyIdInToken"))),
        (403, "BadEnvironmentKeyInToken", .hold(.credential("BadEnvironmentKeyInToken"))),
        (403, "MissingProviderToken", .hold(.credential("MissingProviderToken"))),
        (403, "BadCertificate", .hold(.credential("BadCertificate"))),
        (403, "BadCertificateEnvironment", .hold(.credential("BadCertificateEnvironment"))),
        (403, "Forbidden", .hold(.credential("Forbidden"))),
        (403, "", .hold(.credential("403 without a reason"))),
        (403, "a reason of next year", .hold(.credential("a reason of next year"))),
        (429, "TooManyProviderTokenUpdates", .hold(.tokenUpdates)),
        (429, "TooManyRequests", .retryLater(.seconds(1), pausesToken: true)),
        (429, "another", .retryLater(.seconds(1))),
        (500, "InternalServerError", .retryLater(.seconds(1))),
        (503, "ServiceUnavailable", .retryLater(.seconds(1))),
        (503, "Service Unavailable", .retryLater(.seconds(1))),
        (503, "Shutdown", .resend(mayDuplicate: false)),
        (502, "", .retryLater(.seconds(1))),
        (599, "", .retryLater(.seconds(1))),
        (408, "", .retryLater(.seconds(1))),
        (418, "something new", .deadLetter(nil)),
        (301, "", .deadLetter(nil)),
        (0, "", .deadLetter(nil)),
    ]

    @Test func `429 for another reason than a device or the provider token concerns the whole credential`() {
        func throttle(_ status: Int, _ reason: String, retryAfter: Duration? = nil) -> (hold: HoldReason, pause: Duration?)? {
            RetryPolicy.throttle(.rejected(Rejection(status: status, reason: reason, retryAfter: retryAfter)))
        }
        #expect(throttle(429, "Busy")?.hold == .throttled("429 Busy"))
        #expect(throttle(429, "")?.hold == .throttled("429"))
        #expect(throttle(429, "Busy", retryAfter: .seconds(7))?.pause == .seconds(7))
        #expect(throttle(429, "Busy", retryAfter: .seconds(7000))?.pause == .seconds(900))
        #expect(
            throttle(429, "TooManyRequests") == nil && throttle(429, "TooManyProviderTokenUpdates") == nil
                && throttle(503, "Busy") == nil)
        #expect(RetryPolicy.throttle(.timedOut) == nil)
    }

    @Test(arguments: cases)
    func `each response has its row`(status: Int, reason: String, decision: RetryPolicy.Decision) {
        #expect(decide(status, reason) == decision)
    }

    @Test func `every row has a case`() {
        func row(_ status: Int, _ reason: String) -> Int? {
            RetryTable.rows.firstIndex { $0.statuses.contains(status) && ($0.reason == nil || $0.reason == reason) }
        }
        #expect(Set(Self.cases.compactMap { row($0.status, $0.reason) }) == Set(RetryTable.rows.indices))
    }

    @Test(arguments: ["BadTopic", "MissingTopic", "TopicDisallowed"])
    func `a refused topic of the settings holds the app`(reason: String) {
        #expect(decide(400, reason, isTopicFromSettings: true) == .hold(.topic(reason)))
    }

    @Test func `a 403 about the topic holds the app only if the job names neither topic nor channel`() {
        #expect(decide(403, "TopicMismatch", isTopicFromSettings: true) == .hold(.topic("TopicMismatch")))
        #expect(decide(403, "TopicMismatch", isTopicFromSettings: true, namesChannel: true) == .deadLetter(nil))
        #expect(decide(403, "Forbidden", namesChannel: true) == .hold(.credential("Forbidden")))
    }

    @Test(arguments: cases.filter { if case .hold = $0.decision { true } else { $0.decision == .renewToken } })
    func `a fault of the credential costs a job no retry, however many it had`(
        status: Int, reason: String, decision: RetryPolicy.Decision
    ) {
        #expect(decide(status, reason, attempts: 3, resends: 9) == decision)
    }

    @Test(arguments: cases.filter { if case .retryLater = $0.decision { true } else { false } })
    func `a temporary error leads to four sends in total, after the delays of the settings`(
        status: Int, reason: String, decision: RetryPolicy.Decision
    ) {
        let pauses = reason == "TooManyRequests"
        #expect(decide(status, reason, attempts: 1) == .retryLater(.seconds(60), pausesToken: pauses))
        #expect(decide(status, reason, attempts: 2) == .retryLater(.seconds(900), pausesToken: pauses))
        #expect(decide(status, reason, attempts: 3) == .deadLetter(nil))
    }

    @Test func `the last delay repeats when there are more retries than delays`() {
        let patient = RetryPolicy(limit: 9, delays: [.seconds(1), .seconds(2)])
        let decision = patient.decide(.timedOut, .init(attempts: 8, resends: 0, isTopicFromSettings: false), random: 0.5)
        #expect(decision == .retryLater(.seconds(2)))
    }

    @Test func `jitter spreads a delay by 20 % both ways`() {
        let job = RetryPolicy.Standing(attempts: 0, resends: 0, isTopicFromSettings: false)
        #expect(policy.decide(.timedOut, job, random: 0) == .retryLater(.milliseconds(800)))
        #expect(policy.decide(.timedOut, job, random: 1) == .retryLater(.milliseconds(1200)))
    }

    @Test func `Retry-After takes precedence, up to 900 s`() {
        #expect(decide(503, "ServiceUnavailable", retryAfter: .seconds(7)) == .retryLater(.seconds(7)))
        #expect(decide(503, "ServiceUnavailable", retryAfter: .seconds(86400)) == .retryLater(.seconds(900)))
        #expect(decide(503, "ServiceUnavailable", retryAfter: .zero) == .retryLater(.seconds(1)))
    }

    @Test(arguments: [(503, "Shutdown"), (400, "IdleTimeout")])
    func `a response that announces the end of its session costs no retry the first time`(status: Int, reason: String) {
        #expect(decide(status, reason, attempts: 0, resends: 0) == .resend(mayDuplicate: false))
        #expect(decide(status, reason, attempts: 0, resends: 1) == .retryLater(.seconds(1)))
        #expect(decide(status, reason, attempts: 1, resends: 0) == .retryLater(.seconds(60)))
    }

    @Test func `a timeout is a counted retry`() {
        #expect(decide(.timedOut, attempts: 0) == .retryLater(.seconds(1)))
        #expect(decide(.timedOut, attempts: 3) == .deadLetter(nil))
    }

    @Test func `an unprocessed request is resent at once, and after ten times waits a second`() {
        let refused = Outcome.notProcessed(.streamReset(code: 7))
        for resends in 0..<9 { #expect(decide(refused, attempts: 3, resends: resends) == .resend(mayDuplicate: false)) }
        #expect(decide(refused, attempts: 3, resends: 9) == .postpone(.seconds(1)))
        #expect(decide(refused, attempts: 3, resends: 10) == .resend(mayDuplicate: false))
    }

    @Test func `a request that may have been processed is resent ten times uncounted, then counted`() {
        let cut = Outcome.maybeProcessed(.connectionLost("reset"))
        for doubtful in 0..<10 { #expect(decide(cut, doubtful: doubtful) == .resend(mayDuplicate: true)) }
        #expect(decide(cut, attempts: 1, doubtful: 10) == .retryLater(.seconds(60)))
        #expect(decide(cut, attempts: 3, doubtful: 10) == .deadLetter(nil))
        // Resends of unprocessed requests do not count among the ten.
        #expect(decide(cut, resends: 25, doubtful: 9) == .resend(mayDuplicate: true))
    }

    @Test func `the sentence of a hold ends with one punctuation mark`() {
        #expect(HoldReason.suspectTokens.wholeSentence.hasSuffix(": wrong environment or topic?"))
        #expect(HoldReason.topic("BadTopic").wholeSentence.hasSuffix("check apns_topic."))
        #expect(
            HoldReason.untrusted("unknown root").wholeSentence.hasPrefix(
                "The identity of the APNs server cannot be verified (unknown root): check apns_ca_path,"))
    }

    @Test func `a session that ends because of the credential holds the app`() {
        for reason in ["BadCertificate", "ExpiredProviderToken"] {
            #expect(decide(.notProcessed(.goAway(code: 0, reason: reason))) == .hold(.credential(reason)))
        }
        #expect(
            decide(.notProcessed(.dial("unknown root", isCredential: true))) == .hold(.credential("unknown root")))
        #expect(decide(.notProcessed(.untrusted("unknown root"))) == .hold(.untrusted("unknown root")))
        #expect(decide(.notProcessed(.dial("refused", isCredential: false))) == .resend(mayDuplicate: false))
        #expect(decide(.notProcessed(.goAway(code: 0, reason: "IdleTimeout"))) == .resend(mayDuplicate: false))
    }
}
