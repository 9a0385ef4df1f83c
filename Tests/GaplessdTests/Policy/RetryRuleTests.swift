import PushPool
import Testing

@testable import gaplessd

@Suite("The rules of the operator about responses")
struct RetryRuleTests {
    private func decide(
        _ rules: [ResponseRule], _ status: Int, _ reason: String, attempts: Int = 0, retryAfter: Duration? = nil
    ) -> RetryPolicy.Decision {
        RetryPolicy(limit: 2, delays: [.seconds(1), .seconds(60)], rules: rules).decide(
            .rejected(Rejection(status: status, reason: reason, retryAfter: retryAfter)),
            .init(attempts: attempts, resends: 0, isTopicFromSettings: true), random: 0.5)
    }

    @Test func `the first rule that matches replaces the built-in decision`() {
        let rules = [
            ResponseRule(status: 400, reason: "BadTopic", action: .dead),
            ResponseRule(status: 400, reason: nil, action: .retry(delays: [])),
            ResponseRule(status: nil, reason: "Forbidden", action: .hold),
        ]
        #expect(decide(rules, 400, "BadTopic") == .deadLetter(nil))
        #expect(decide(rules, 400, "BadPriority") == .retryLater(.seconds(1)))
        #expect(decide(rules, 403, "Forbidden") == .hold(.rule("403 Forbidden")))
        #expect(decide(rules, 418, "Forbidden") == .hold(.rule("418 Forbidden")), "a reason alone matches any status")
        #expect(decide(rules, 413, "PayloadTooLarge") == .deadLetter(nil), "no rule")
    }

    @Test func `a retry has its own delays, and the limit of all`() {
        let own = [ResponseRule(status: 413, reason: nil, action: .retry(delays: [.seconds(5), .seconds(7)]))]
        #expect(decide(own, 413, "x") == .retryLater(.seconds(5)))
        #expect(decide(own, 413, "x", attempts: 1) == .retryLater(.seconds(7)))
        #expect(decide(own, 413, "x", attempts: 2) == .deadLetter(nil))
        #expect(decide(own, 413, "x", retryAfter: .seconds(30)) == .retryLater(.seconds(30)))
        let usual = [ResponseRule(status: 413, reason: nil, action: .retry(delays: []))]
        #expect(decide(usual, 413, "x", attempts: 1) == .retryLater(.seconds(60)))
    }

    @Test func `a rule keeps the verdict about a token, and the protection against mass rejection`() {
        let dead = [
            ResponseRule(status: nil, reason: "BadDeviceToken", action: .dead),
            ResponseRule(status: 410, reason: nil, action: .dead),
        ]
        #expect(decide(dead, 400, "BadDeviceToken") == .suspect)
        #expect(decide(dead, 410, "Unregistered") == .deadLetter(.dead))
        let retry = [ResponseRule(status: 410, reason: nil, action: .retry(delays: []))]
        #expect(decide(retry, 410, "Unregistered") == .retryLater(.seconds(1)))
        #expect(decide(retry, 410, "Unregistered", attempts: 2) == .deadLetter(.dead))
    }

    @Test func `no rule concerns an outcome without a response`() {
        let rules = [ResponseRule(status: 500, reason: nil, action: .dead)]
        let policy = RetryPolicy(limit: 2, delays: [.seconds(1)], rules: rules)
        #expect(!policy.hasRule(for: .timedOut))
        #expect(policy.hasRule(for: .rejected(Rejection(status: 500, reason: "x"))))
        #expect(
            policy.decide(.timedOut, .init(attempts: 0, resends: 0, isTopicFromSettings: true), random: 0.5)
                == .retryLater(.seconds(1)))
    }

    @Test func `a response that a rule retries throttles no other app`() {
        var plan = MachineFixture.plan(apps: [nil, "beta"], sharesCredential: true)
        plan.policy.rules = [ResponseRule(status: 429, reason: nil, action: .retry(delays: [.seconds(3)]))]
        let fixture = MachineFixture(plan)
        let effects = fixture.reject(fixture.send(), 429, "another")
        #expect(effects.settlements.count == 1)
        let held = [0, 1].filter { fixture.machine.isHeld(app: $0) }
        #expect(held.isEmpty)
    }

    @Test func `a hold by a rule ends with the next acceptance`() {
        var plan = MachineFixture.plan()
        plan.policy.rules = [ResponseRule(status: 413, reason: nil, action: .hold)]
        let fixture = MachineFixture(plan)
        fixture.close()
        #expect(fixture.reject(fixture.send(), 413, "PayloadTooLarge").releases(2, toTail: true))
        let wasHeld = fixture.machine.isHeld(app: 0)
        fixture.pass(CircuitBreaker.firstProbeWait)
        #expect(fixture.offers() == [1])
        _ = fixture.accept(fixture.send())
        let isHeld = fixture.machine.isHeld(app: 0)
        #expect(wasHeld && !isHeld)
    }
}
