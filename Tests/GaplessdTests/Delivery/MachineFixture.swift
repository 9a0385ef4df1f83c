import Platform
import PushPool
import RedisQueue

@testable import gaplessd

/// A `DispatchMachine` with hand-made facts and a clock that moves by hand. A class, because tests are copyable values and a
/// machine is not.
final class MachineFixture {
    var machine: DispatchMachine
    var now = Instant.now
    var wallClock = WallClock(seconds: 1_800_000_000)
    private var claims: UInt64 = 0

    static let session = SessionID(7)

    static func plan(
        apps: [String?] = [nil], lists: [String] = ["q"], options: Settler.Options = Settler.Options(),
        delivery: QueueSettings.DeliveryMode = .atLeastOnce, sharesCredential: Bool = false, fingerprint: String = ""
    ) -> DispatchPlan {
        DispatchPlan(
            apps: apps.indices.map { app in
                DispatchPlan.App(
                    name: apps[app], topic: "topic", fingerprint: fingerprint, credentialKey: sharesCredential ? "key" : "\(app)")
            },
            lists: lists, server: "redis",
            routes: AppRoutes(apps.map { AppRoutes.App(name: $0, topic: "topic") }),
            reader: JobReader(retryLimit: 3, appNames: Set(apps.compactMap(\.self))),
            policy: RetryPolicy(limit: 3, delays: [.seconds(1), .seconds(60)]), settling: options, delivery: delivery,
            drainTimeout: .seconds(20), certificates: CertificateWatch([], now: 0))
    }

    /// - Parameter capacity: streams of every app's pool.
    init(_ plan: DispatchPlan = MachineFixture.plan(), capacity: Int = 100) {
        machine = DispatchMachine(plan, workers: plan.lists.map { "worker of \($0)" }, now: now, wallClock: wallClock)
        for app in plan.apps.indices { machine.observed(.init(capacity: capacity), app: app) }
        for list in plan.lists.indices { _ = effects { $0.happened(.connected(warnings: []), list: list, &$1) } }
    }

    var inFlight: Int { machine.inFlight }
    var counters: Counters { machine.counters }
    var deadline: Instant? { machine.deadline }
    var isStopped: Bool { machine.isStopped }

    /// Tells the machine a fact and returns its effects.
    func effects(_ fact: (inout DispatchMachine, inout [DispatchEffect]) -> Void) -> [DispatchEffect] {
        var effects: [DispatchEffect] = []
        fact(&machine, &effects)
        return effects
    }

    static func job(_ token: String = "ab", _ members: String = "") -> String {
        #"{"token":"\#(token)","data":{"aps":{}}\#(members.isEmpty ? "" : ",")\#(members)}"#
    }

    /// Claims jobs, which get the claim ids that follow.
    func claim(
        _ jobs: String..., list: Int = 0, isAlone: Bool = false, wasClaimed: Bool = false, rank: UInt64 = 0,
        isFromSlot: Bool = false
    ) -> [DispatchEffect] {
        let claimed = jobs.map { job in
            claims += 1
            return ClaimedJob(
                id: ClaimID(claims), bytes: Array(job.utf8), isAlone: isAlone, wasClaimed: wasClaimed, rank: rank,
                isFromSlot: isFromSlot)
        }
        return effects { $0.happened(.claimed(claimed), list: list, &$1) }
    }

    /// The jobs that go to the pool of `app` at the end of the turn.
    func sent(by app: Int = 0) -> [JobID] {
        var batch: [Notification] = []
        machine.takeOutgoing(of: app, into: &batch)
        return batch.map { JobID($0.id) }
    }

    /// Claims one job that goes out, and returns its number.
    func send(_ job: String = MachineFixture.job(), by app: Int = 0, list: Int = 0) -> JobID {
        let effects = claim(job, list: list)
        let sent = sent(by: app)
        precondition(effects.isEmpty && sent.count == 1, "\(effects) \(sent)")
        return sent[0]
    }

    /// Has APNs accept a job. The line about the first one of an app is left out: see `AppLogTests`.
    func accept(_ id: JobID, isCurrent: Bool = true) -> [DispatchEffect] {
        effects { $0.delivered(id, nil, isCurrent: isCurrent, &$1) }.filter { effect in
            if case .log(.sentence(_, _, .firstAccepted)) = effect { false } else { true }
        }
    }

    func fail(_ id: JobID, _ outcome: Outcome, isCurrent: Bool = true) -> [DispatchEffect] {
        let attempt = Delivery(id: id.rawValue, session: Self.session, outcome: outcome)
        return effects { $0.failed(attempt, isCurrent: isCurrent, random: 0.5, &$1) }
    }

    func reject(_ id: JobID, _ status: Int, _ reason: String, isCurrent: Bool = true) -> [DispatchEffect] {
        fail(id, .rejected(Rejection(status: status, reason: reason)), isCurrent: isCurrent)
    }

    /// Has APNs accept a job, so that the breaker of `app` is closed.
    func close(app: Int = 0, _ job: String = MachineFixture.job()) {
        let id = send(job, by: app)
        _ = accept(id)
    }

    func withdraw(_ ids: [JobID], _ withdrawal: DispatchEffect.Withdrawal = .release, app: Int = 0) -> [DispatchEffect] {
        effects { $0.withdrew(ids, withdrawal, app: app, &$1) }
    }

    /// A turn begins this much later.
    func pass(_ time: Duration) {
        now += time
        wallClock.seconds += time / .seconds(1)
        machine.turnBegan(now: now, wallClock: wallClock)
    }

    func tick() -> [DispatchEffect] { effects { $0.tick(&$1) } }

    /// The queue reports which apps have side lists.
    func aside(_ apps: String..., list: Int = 0) { _ = effects { $0.happened(.aside(apps), list: list, &$1) } }

    /// How many jobs a side list of each app is asked for, after `offers`.
    func asideOffers(list: Int = 0) -> [String: Int] {
        machine.countPlaces(limit: nil)
        return Dictionary(uniqueKeysWithValues: machine.offerAsides(to: list).map { ($0.app, $0.places) })
    }

    /// How many jobs the slots of each app are asked for, after `offers`.
    func slotOffers(list: Int = 0) -> [String: Int] {
        machine.countPlaces(limit: nil)
        return Dictionary(uniqueKeysWithValues: machine.offerSlots(to: list).map { ($0.app, $0.places) })
    }

    /// How many jobs each list is asked for.
    func offers(limit: ClaimBudget.Rate? = nil, mayHaveJobs: [Bool] = [false]) -> [Int] {
        machine.countPlaces(limit: limit)
        return mayHaveJobs.indices.map { machine.offer(to: $0, mayHaveJobs: mayHaveJobs[$0]) }
    }
}

extension [DispatchEffect] {
    /// The settlements among the effects.
    var settlements: [Settlement] {
        compactMap { effect in
            switch effect {
            case .settle(let settlement, _): settlement
            case .acknowledge(let claim, _), .acknowledgeToken(let claim, _): Settlement(id: claim, effect: .ack)
            default: nil
            }
        }
    }

    /// `release` for each claim, in this order.
    ///
    /// - Parameter aside: the app to whose side list they go.
    func releases(_ claims: UInt64..., aside: String? = nil, toTail: Bool = false) -> Bool {
        settlements == claims.map { Settlement(id: ClaimID($0), effect: .release(toTail: toTail), aside: aside) }
    }

    /// The reason of the only dead letter.
    var deadLetter: String? {
        guard settlements.count == 1, case .deadLetter(let record, _, _) = settlements[0].effect else { return nil }
        let text = String(decoding: record, as: UTF8.self)
        return text.split(separator: #""reason": ""#).dropFirst().first.map { String($0.prefix { $0 != "\"" }) }
    }
}

extension LogEntry {
    /// The line about a hold of an app of the fixture.
    static func held(app label: String, _ reason: HoldReason) -> LogEntry {
        let app = DispatchPlan.App(name: label.isEmpty ? nil : label)
        return held(app: label, reason, place: app.place(of: reason))
    }
}
