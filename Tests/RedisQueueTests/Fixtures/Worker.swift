import Platform
import Testing

@testable import RedisQueue

/// A queue whose owner is the test: it gives the queue turns until a condition holds.
final class Worker {
    var queue: JobQueue
    var places = 1000
    /// Places for the side lists of apps.
    var asidePlaces: [String: Int] = [:]
    /// The apps with side lists, as the queue reports them.
    private(set) var asides: [String] = []
    /// Places for the slots of apps, and the apps with slots, as the queue reports them.
    var slotPlaces: [String: Int] = [:]
    private(set) var slotApps: [String] = []
    /// Places for the tokens of campaigns.
    var campaignPlaces: [String: Int] = [:]
    private(set) var campaigns: [Campaign] = []
    /// The answer to the last launch.
    private(set) var start: CampaignStart?
    private(set) var pauses: [QueuePause] = []
    private(set) var events: [QueueEvent] = []
    /// Jobs that this worker may push, in the order of their arrival.
    private(set) var jobs: [ClaimedJob] = []
    private(set) var suspects: [ClaimedJob] = []
    private(set) var disowned: [ClaimID] = []
    /// Called for each job that arrives.
    var onJob: ((ClaimedJob) -> Settlement?)?
    private var poller = Poller()

    init(
        _ settings: QueueSettings, worker: WorkerName? = nil, resolver: NameResolver = NameResolver(thread: "redis names")
    ) {
        if let worker {
            queue = JobQueue(settings: settings, version: "test", resolver: resolver, worker: worker)
        } else {
            queue = JobQueue(settings: settings, version: "test", resolver: resolver)
        }
    }

    var texts: [String] { jobs.map { String(decoding: $0.bytes, as: UTF8.self) } }
    var connects: Int { events.count { if case .connected = $0 { true } else { false } } }
    var hasStopped: Bool { events.contains(.stopped) }
    var isInDoubt: Bool { events.contains(.leaseInDoubt) }
    var isDisconnected: Bool { events.contains { if case .disconnected = $0 { true } else { false } } }
    var refusal: RedisError? {
        for case .refused(let error) in events { return error }
        return nil
    }

    /// One sleep and one turn.
    func step(atMost pause: Duration = .milliseconds(20)) {
        queue.offer(places: max(0, places - jobs.count), now: .now)
        for app in asides { queue.offer(places: asidePlaces[app] ?? 0, aside: app, now: .now) }
        for app in slotApps { queue.offer(places: slotPlaces[app] ?? 0, slots: app) }
        for (id, places) in campaignPlaces { queue.offer(places: places, campaign: id, now: .now) }
        poller.reset()
        queue.addInterests(to: &poller)
        let limit = Instant.now + pause
        poller.wait(until: queue.deadline.map { min($0, limit) } ?? limit)
        var new: [QueueEvent] = []
        queue.turn(poller, now: .now, events: &new)
        queue.write(events: &new)
        events += new
        for event in new { take(event) }
    }

    /// Gives turns until `condition` holds, or fails the test.
    func run(_ what: Comment, within limit: Duration = .seconds(60), until condition: () throws -> Bool) rethrows {
        let deadline = Instant.now + limit
        while Instant.now < deadline {
            if try condition() { return }
            step()
        }
        Issue.record("did not happen: \(what.rawValue); events: \(events.suffix(5))")
    }

    /// Claims this many jobs, and then no more.
    func claim(_ count: Int) {
        places = count
        run("\(count) jobs") { jobs.count == count }
        places = 0
    }

    func settle(
        _ job: ClaimedJob, _ effect: Settlement.Effect, aside: String? = nil, scope: Scope? = nil, feedback: [UInt8]? = nil,
        result: Arguments? = nil, campaign: CampaignOutcome? = nil
    ) {
        jobs.removeAll { $0.id == job.id }
        queue.settle(
            Settlement(
                id: job.id, effect: effect, aside: aside, scope: scope, feedback: feedback, result: result, campaign: campaign))
    }

    func acknowledgeFirst() { if let job = jobs.first { settle(job, .ack) } }

    func acknowledgeAll() {
        for job in jobs { queue.settle(Settlement(id: job.id, effect: .ack)) }
        jobs = []
    }

    /// Whether settlements are still to be confirmed.
    var queueHasWork: Bool { !queue.isSettled }

    /// Stops, and waits for the end.
    func stop() {
        queue.stop()
        run("stopped") { hasStopped }
    }

    func forgetEvents() { events = [] }
    func forgetStart() { start = nil }
    func forgetSuspects() { suspects = [] }

    private func take(_ event: QueueEvent) {
        switch event {
        case .claimed(let new):
            for job in new {
                if let settlement = onJob?(job) { queue.settle(settlement) } else { jobs.append(job) }
            }
        case .suspects(let new): suspects += new
        case .aside(let apps): asides = apps
        case .slots(let apps): slotApps = apps
        case .campaigns(let known, _): campaigns = known
        case .launched(_, let start): self.start = start
        case .paused(let new): pauses = new
        case .disowned(let ids, _):
            disowned += ids
            let gone = Set(ids)
            jobs.removeAll { gone.contains($0.id) }
        default: break
        }
    }
}

extension ClaimID: ExpressibleByIntegerLiteral {
    init(integerLiteral value: UInt64) { self.init(value) }
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

extension String {
    /// The entry of a chunk without the rank of its jobs.
    var withoutRank: String { String(reversed().drop(while: \.isLowercase).reversed()) }
}
