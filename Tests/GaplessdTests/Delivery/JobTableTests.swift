import Harness
import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

/// The tables of transitions in the doc comments of `DispatchMachine` and `AppMachine` have the rows that these tests run.
@Suite("The tables of the dispatcher")
struct JobTableTests {
    private typealias Fixture = MachineFixture

    /// The rows under this heading, in a comment of a file of `Delivery`, as columns.
    private static func rows(of file: String, under heading: String) -> [[String]] {
        let text = Checkout.read("Sources/gaplessd/Delivery/\(file).swift")
        let lines = text.split(separator: "\n").map { $0.drop { $0 == " " } }
        let table = lines.drop { !$0.hasPrefix("///     \(heading) ") }.prefix { $0.hasPrefix("///     ") }
        return table.dropFirst().map { line in
            line.dropFirst(8).split(separator: "  ").map { $0.drop { $0 == " " } }.filter { !$0.isEmpty }.map(String.init)
        }
    }

    // MARK: A claimed job

    /// A claimed job and the state of its app. All later rows may fit as well.
    private struct Claim: Sendable {
        var job = ""
        var tokens = #""token":"ab""#
        var members = ""
        var apps: [String?] = [nil]
        var isStopping = false
        var isListPaused = false
        var isCampaignPaused = false
        var isUnreachable = false
        var isTokenPaused = false
        /// Whether the channel `match` does not exist, and is not to be created.
        var isChannelMissing = false
        var fullSize: Int?
        var topic: String? = "topic"
        /// Apps that were removed from the settings before the start, with their topics.
        var former: [String: String] = [:]

        /// How it ends, in the words of the table.
        func next() -> String {
            var plan = Fixture.plan(apps: apps)
            plan.filter = WordFilter(["darn"], action: .drop)
            plan.routes = AppRoutes(apps.map { AppRoutes.App(name: $0, topic: topic) })
            plan.routes.remember(former)
            plan.reader = plan.routes.reader(retryLimit: 3)
            let fixture = Fixture(plan)
            if topic != nil { fixture.close() }
            if isTokenPaused { _ = fixture.reject(fixture.send(), 429, "TooManyRequests") }
            if isStopping { _ = fixture.effects { $0.stopSignalReceived(&$1) } }
            if isListPaused {
                let pause = QueuePause(.list, record: Array("{}".utf8))
                _ = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
            }
            if isCampaignPaused {
                let pause = QueuePause(.campaign("sale"), record: Array("{}".utf8))
                _ = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
            }
            if isUnreachable { fixture.machine.observed(.init(), app: 0) }
            if isChannelMissing {
                let text = "{\(tokens),\"data\":{}}"
                let first = ClaimedJob(id: ClaimID(98), bytes: Array(text.utf8))
                _ = fixture.effects { $0.happened(.claimed([first]), list: 0, &$1) }
                fixture.machine.answered(.missing(ChannelName(app: "", name: "match")))
            }
            let text = job.isEmpty ? "{\(tokens),\"data\":{\"aps\":{}}\(members)}" : job
            let claim = ClaimedJob(id: ClaimID(99), bytes: Array(text.utf8), fullSize: fullSize)
            let effects = fixture.effects { $0.happened(.claimed([claim]), list: 0, &$1) }
            let settlements = effects.settlements
            guard let settlement = settlements.first else {
                let isLaunched = effects.contains { if case .launch = $0 { true } else { false } }
                return isLaunched ? "begins" : fixture.sent().isEmpty ? "nothing" : "held, and outgoing"
            }
            switch settlement.effect {
            case .release: return settlement.aside == nil ? "released" : "set aside"
            case .deadLetter: return "dead letter"
            case .delay: return "delayed"
            case .split: return "split"
            case .slot: return "into its slot"
            case .ack, .replace: return "\(settlement.effect)"
            }
        }
    }

    private static let badTokens = "\"tokens\":[\(Array(repeating: "\"zz\"", count: 11).joined(separator: ","))]"
    private static let twoTokens = #""tokens":["ab","cd"]"#
    private static let channel = #""channel_name":"match""#
    private static let audience = #""tokens_from":"key""#
    private static let later = #","not_before":1900000000"#
    private static let absent = #","app":"absent""#
    private static let expired = #","expires_at":1"#
    private static let filtered = #","data":{"a":"darn"}"#
    private static let campaign = #","campaign":"sale""#
    private static let retry = #","_gapless_RETRYING":1"#

    private static let claims: [(row: [String], claims: [(Claim, next: String)])] = [
        (
            ["`replaces`, or a broadcast with a pace", "into its slot, unless it comes from there"],
            [
                (Claim(members: #","replaces":"x""#), "into its slot"),
                (Claim(members: #","replaces":"x""#, isListPaused: true), "into its slot"),
            ]
        ),
        (
            ["gaplessd stops, or the list is paused", "released"],
            [(Claim(job: "x", isStopping: true), "released"), (Claim(job: "x", isListPaused: true), "released")]
        ),
        (
            ["too large, not readable, or only bad tokens", "dead letter"],
            [
                (Claim(members: later, fullSize: 1 << 25), "dead letter"), (Claim(job: "x", isUnreachable: true), "dead letter"),
                (Claim(tokens: badTokens, members: later + absent, isUnreachable: true), "dead letter"),
            ]
        ),
        (
            ["its app was removed, also with `replaces`", "set aside"],
            [
                (Claim(members: absent, former: ["absent": "a.b"]), "set aside"),
                (Claim(members: absent + later, former: ["absent": "a.b"]), "set aside"),
                (Claim(members: absent + #","replaces":"x""#, former: ["absent": "a.b"]), "set aside"),
            ]
        ),
        (
            ["`not_before` to come, and not expired", "delayed"],
            [
                (Claim(tokens: twoTokens, members: later + filtered, isUnreachable: true, topic: nil), "delayed"),
                (Claim(members: later + expired), "dead letter"),
            ]
        ),
        (
            ["no app, or no topic", "dead letter"],
            [
                (Claim(tokens: twoTokens, members: absent, isUnreachable: true), "dead letter"),
                (Claim(tokens: twoTokens, isUnreachable: true, topic: nil), "dead letter"),
            ]
        ),
        (
            ["its campaign is paused", "set aside"],
            [
                (Claim(tokens: twoTokens, members: expired + campaign, isCampaignPaused: true, isUnreachable: true), "set aside"),
                (Claim(isCampaignPaused: true), "held, and outgoing"),
            ]
        ),
        (
            ["the app cannot take it, and not expired", "released; in a list of several apps, set aside"],
            [
                (Claim(tokens: twoTokens, members: filtered, isUnreachable: true, isTokenPaused: true), "released"),
                (Claim(tokens: twoTokens, members: filtered, apps: [nil, "beta"], isUnreachable: true), "set aside"),
            ]
        ),
        (
            ["expired, or filtered", "dead letter"],
            [
                (Claim(tokens: twoTokens, members: expired, isUnreachable: true), "dead letter"),
                (Claim(tokens: twoTokens, members: filtered, isTokenPaused: true), "dead letter"),
            ]
        ),
        (
            ["its channel is being found or created", "delayed"],
            [
                (Claim(tokens: channel), "delayed"), (Claim(tokens: channel, members: expired), "dead letter"),
                (Claim(tokens: channel, isUnreachable: true), "released"),
            ]
        ),
        (
            ["it names a channel that does not exist", "dead letter"],
            [(Claim(tokens: channel, isChannelMissing: true), "dead letter")]
        ),
        (
            ["several tokens", "split: its parts are claimed in turn"],
            [(Claim(tokens: twoTokens, members: retry, isTokenPaused: true), "split")]
        ),
        (
            ["its tokens are in a key", "its campaign begins"],
            [
                (Claim(tokens: audience), "begins"), (Claim(tokens: audience, isUnreachable: true), "released"),
                (Claim(tokens: audience, members: expired), "dead letter"), (Claim(tokens: audience, members: later), "delayed"),
                (Claim(tokens: audience, members: filtered), "dead letter"),
            ]
        ),
        (
            ["its token is paused, and it is not a retry", "delayed"],
            [(Claim(isTokenPaused: true), "delayed"), (Claim(members: retry, isTokenPaused: true), "held, and outgoing")]
        ),
        (["otherwise", "held, and outgoing"], [(Claim(), "held, and outgoing")]),
    ]

    @Test func `a claimed job`() {
        #expect(Self.rows(of: "DispatchMachine", under: "claimed job") == Self.claims.map(\.row))
        for (row, claims) in Self.claims { for (claim, next) in claims { #expect(claim.next() == next, "\(row): \(claim)") } }
    }

    // MARK: A held job

    private static let suspect = Outcome.rejected(Rejection(status: 400, reason: "BadDeviceToken"))
    private static let failure = Outcome.rejected(Rejection(status: 503, reason: ""))
    private static let forbidden = Outcome.rejected(Rejection(status: 403, reason: "Forbidden"))

    /// A fixture whose app has an acceptance.
    private static func proven() -> Fixture {
        let fixture = Fixture()
        fixture.close()
        return fixture
    }

    private static func leaseInDoubt(_ fixture: Fixture) -> [DispatchEffect] {
        fixture.effects { $0.happened(.leaseInDoubt, list: 0, &$1) }
    }

    private static func resumed(_ fixture: Fixture) -> [JobID] {
        _ = fixture.effects { $0.happened(.resumed, list: 0, &$1) }
        return fixture.sent()
    }

    /// Whether the job in the pool goes back to its list.
    private static func isReleased(_ effects: [DispatchEffect], _ id: JobID, _ fixture: Fixture) -> Bool {
        effects.contains(.withdraw(.release, app: 0)) && fixture.withdraw([id]).releases(2)
    }

    private static func unreachable(_ fixture: Fixture) -> [DispatchEffect] {
        fixture.machine.observed(.init(), app: 0)
        fixture.pass(PoolHealth.unreachableTimeout)
        return fixture.tick()
    }

    /// A suspect of an app without an acceptance.
    private static func oneSuspect() -> (Fixture, JobID) {
        let fixture = Fixture()
        let id = fixture.send()
        _ = fixture.fail(id, suspect)
        return (fixture, id)
    }

    private static let jobs: [(row: [String], holds: @Sendable () -> Bool)] = [
        (["outgoing", "end of the turn", "in the pool"], { Fixture().send() == JobID(slot: 0, use: 1) }),
        (
            ["outgoing", "the lease of its list is in doubt", "suspended, until Redis responds"],
            {
                let fixture = Fixture()
                _ = fixture.claim(Fixture.job())
                _ = leaseInDoubt(fixture)
                return fixture.sent() == [] && resumed(fixture).count == 1
            }
        ),
        (
            ["in the pool", "the lease of its list is in doubt", "suspended, until Redis responds"],
            {
                let fixture = Fixture()
                let id = fixture.send()
                let isWithdrawn = leaseInDoubt(fixture).contains(.withdraw(.keep([id]), app: 0))
                _ = fixture.withdraw([id], .keep([id]))
                return isWithdrawn && fixture.sent() == [] && resumed(fixture) == [id]
            }
        ),
        (
            ["in the pool", "app held, unreachable or limited; stop signal", "released"],
            {
                let facts: [(Fixture) -> [DispatchEffect]] = [
                    { $0.fail($0.send(), forbidden) }, unreachable,
                    { $0.effects { $0.happened(.slowed(pushesPerSecond: 1), app: 0, isCurrent: true, &$1) } },
                    { $0.effects { $0.stopSignalReceived(&$1) } },
                ]
                return facts.allSatisfy { fact in
                    let fixture = proven()
                    let id = fixture.send()
                    return isReleased(fact(fixture), id, fixture)
                }
            }
        ),
        (
            ["in the pool", "200", "acknowledged"],
            {
                let fixture = Fixture()
                return fixture.accept(fixture.send()) == [.acknowledge(ClaimID(1), list: 0)]
            }
        ),
        (
            ["in the pool", "another outcome", "as `RetryPolicy` decides"],
            {
                let fixture = proven()
                let (lost, failed, dead) = (fixture.send(), fixture.send(), fixture.send())
                _ = fixture.fail(lost, .notProcessed(.closedByUs))
                guard case .delay = fixture.fail(failed, failure).settlements.first?.effect else { return false }
                return fixture.sent() == [lost] && fixture.reject(dead, 410, "Unregistered").deadLetter == "Unregistered"
            }
        ),
        (
            ["in the pool", "suspect response", "suspect"],
            {
                let fixture = proven()
                return fixture.fail(fixture.send(), suspect) == [] && fixture.inFlight == 1
            }
        ),
        (
            ["in the pool", "5xx or timeout without resends, APNs is failing", "released"],
            {
                let fixture = proven()
                for _ in 0..<20 { _ = fixture.fail(fixture.send(), failure) }
                let last = [failure, .timedOut].map { outcome in
                    fixture.fail(fixture.send(Fixture.job("ab", #""_gapless_RETRYING":3"#)), outcome).settlements.map(\.effect)
                }
                return last.allSatisfy { if case .replace(_, toTail: true) = $0.first { true } else { false } }
            }
        ),
        (
            ["suspect", "acceptance of the app, or 60 s", "dead letter"],
            {
                let (first, second) = (oneSuspect().0, oneSuspect().0)
                second.pass(.seconds(60))
                return first.accept(first.send()).settlements.count == 2 && first.counters.dead == 1
                    && second.tick().deadLetter == "BadDeviceToken"
            }
        ),
        (
            ["suspect", "app held, reload, stop signal", "released"],
            {
                let facts: [(Fixture) -> [DispatchEffect]] = [
                    { $0.fail($0.send(), forbidden) }, { $0.effects { $0.adopted(Fixture.plan(), &$1) } },
                    { $0.effects { $0.stopSignalReceived(&$1) } },
                ]
                return facts.allSatisfy { fact in
                    let own = fact(oneSuspect().0).settlements.first { $0.id == ClaimID(1) }
                    return own?.effect == .release(toTail: true) || own?.effect == .release(toTail: false)
                }
            }
        ),
        (
            ["suspect", "known app held after 2,000 of them", "suspect"],
            {
                let fixture = proven()
                var effects: [DispatchEffect] = []
                for _ in 0..<CircuitBreaker.mostSuspects { effects += fixture.fail(fixture.send(), suspect) }
                return effects.contains(.log(.held(app: "", .suspectTokens))) && effects.settlements == []
                    && fixture.inFlight == CircuitBreaker.mostSuspects
            }
        ),
        (
            ["any", "another worker took it over", "forgotten, after its outcome if it is on a stream"],
            {
                let (fixture, _) = oneSuspect()
                let onStream = fixture.send()
                _ = fixture.claim(Fixture.job())
                let claims = [ClaimID(1), ClaimID(2), ClaimID(3)]
                _ = fixture.effects { $0.happened(.disowned(claims, .takenOver), list: 0, &$1) }
                let isOnStream = fixture.inFlight == 1 && fixture.sent() == []
                return isOnStream && fixture.fail(onStream, .notProcessed(.closedByUs)) == [] && fixture.inFlight == 0
            }
        ),
    ]

    @Test func `a held job`() {
        #expect(Self.rows(of: "AppMachine", under: "job") == Self.jobs.map(\.row))
        for (row, holds) in Self.jobs { #expect(holds(), "\(row)") }
    }
}
