import Platform
@testable import RedisQueue
@testable import gaplessd

/// One run: jobs, workers and faults for some time, then peace until every job has its end.
final class DaemonRun {
    let world: World
    let conditions: Conditions
    private let redis: SimulatedRedis
    /// One for each app.
    private let apns: [SimulatedAPNs]
    let ledger: Ledger
    private var workers: [SimulatedWorker] = []
    private var names = 0
    /// Those that were pushed.
    private var campaigns = 0
    /// The names of the workers whose processes have ended.
    private var gone: Set<String> = []
    private(set) var faults = [Int](repeating: 0, count: Fault.allCases.count)
    private var isCalm = false

    /// The longest time that the rest may take after the last fault.
    private static let timeout: Int64 = 1800 * .second
    /// From then on every worker runs, and has noticed its dead connections.
    private static let aftermath: Int64 = 50 * .second
    /// The longest time from then on in which the jobs of an app end although another one is disturbed: a token that rests, the
    /// retries, and the probes of a hold by the faults before.
    private static let undisturbed: Int64 = 300 * .second

    /// - Parameters:
    ///   - job: whose story the run keeps.
    ///   - match: replaces the random conditions.
    init(seed: UInt64, _ host: RedisHost, watching job: Int? = nil, match: Conditions.Match? = nil) {
        world = World(seed: seed, watching: job, mostSteps: match == nil ? 3_000_000 : 300_000_000)
        conditions = match.map(Conditions.init) ?? Conditions(world)
        ledger = Ledger(world)
        redis = SimulatedRedis(world, host, ledger, channelPace: match?.pace)
        apns = conditions.apps.indices.map { [world, ledger, conditions] in
            SimulatedAPNs(world, ledger, conditions.profile, app: $0)
        }
    }

    var digest: UInt64 { world.digest }

    func run() {
        defer { tearDown() }
        for _ in 0..<conditions.workers { start() }
        produce()
        for (kind, interval) in conditions.faults { plan(kind, every: interval) }
        planDisturbance()
        world.run(until: conditions.production + 20 * .second)
        calm()
        endOthers()
        settle()
        leave()
        if world.failure == nil { check() }
    }

    private func tearDown() {
        for worker in workers { worker.end() }
        world.forget()
    }

    // MARK: Workers and jobs

    private func start() {
        names += 1
        workers.append(
            SimulatedWorker(
                names, world, redis, apns, conditions,
                isGone: { [unowned self] name in conditions.sharesMachine && gone.contains(name) },
                onStopped: { [unowned self] in ended($0) }))
    }

    private func ended(_ worker: SimulatedWorker) {
        // The jobs in its memory may have been only there.
        if ledger.isForgetful && !worker.heldJobs.isEmpty {
            let kept = redis.contents().union(heldJobs { $0 !== worker })
            for job in worker.heldJobs where !kept.contains(job) {
                ledger.forget(job)
                ledger.lose(job, with: worker.number)
            }
        }
        gone.formUnion(worker.names)
        workers.removeAll { $0 === worker }
    }

    private func produce() {
        if let match = conditions.match { return produce(match) }
        var made = 0
        while made < conditions.jobs {
            let count = min(conditions.burst, conditions.jobs - made)
            let time = conditions.production == 0 ? 0 : world.time(in: 0...conditions.production)
            world.at(time) { [unowned self] in push(count) }
            made += count
        }
    }

    private func push(_ count: Int) {
        let first = ledger.jobs.count
        // Those beyond the most wait until others end, and so for a disturbed app.
        if world.chance(conditions.campaigns), campaigns < Campaign.most { return pushCampaign(count) }
        let jobs = (0..<count).map { _ in job() }
        world.note(.produced, ledger.jobs.count - first, first)
        redis.push(jobs, first..<ledger.jobs.count)
    }

    private func produce(_ match: Conditions.Match) {
        let ticks = match.minutes * match.updatesPerMinute
        for tick in 0..<ticks {
            world.at(Int64(tick) * 60 * .second / Int64(match.updatesPerMinute)) { [unowned self] in
                let first = ledger.jobs.count
                var jobs = (0..<match.channels).map { state($0, app: 0, target: "channel") }
                let devices = match.devices * (tick + 1) / ticks - match.devices * tick / ticks
                for _ in 0..<devices {
                    let number = ledger.produce(mayExpire: false, app: 0)
                    jobs.append(#"{"token":"\#(Ledger.token(number))","data":{"aps":{"badge":1}},"identifier":\#(number)}"#)
                }
                redis.push(jobs, first..<ledger.jobs.count)
            }
        }
    }

    private func state(_ scope: Int, app: Int, target: String = "token") -> String {
        let scope = Ledger.scope(scope, app: app)
        let number = ledger.produce(mayExpire: false, app: app, scope: scope)
        let data = conditions.arePaced ? #"{"aps":{"event":"update","content-state":{}}}"# : #"{"aps":{"badge":1}}"#
        let app = conditions.apps[app].map { #","app":"\#($0)""# } ?? ""
        return #"{"\#(target)":"\#(scope)","replaces":"state","data":\#(data),"identifier":\#(number)\#(app)}"#
    }

    /// Hands over tokens as a list or a sorted set; Redis takes members of a set at random. A campaign that is never stopped
    /// needs no operator.
    private func pushCampaign(_ count: Int) {
        campaigns += 1
        let app = conditions.apps.count == 1 ? 0 : world.number(in: 0...conditions.apps.count - 1)
        let numbers = (0..<count).map { _ in ledger.produce(mayExpire: false, app: app) }
        let first = numbers[0]
        let key = "audience:\(first)"
        let add = ["RPUSH", "ZADD"][world.number(in: 0...1)]
        let tokens = numbers.flatMap { (add == "ZADD" ? ["\($0)"] : []) + [Ledger.token($0)] }
        var members = #""tokens_from":"\#(key)","stop_at":0,"data":{"aps":{"badge":1}}"#
        if world.chance(0.5) { members += #","campaign":"c\#(first)""# }
        if world.chance(0.3) { members += #","over":\#(world.number(in: 1...20))"# }
        if let name = conditions.apps[app] { members += #","app":"\#(name)""# }
        world.note(.produced, count, first)
        redis.push(["{\(members)}"], first..<first + count, audience: [add, key] + tokens)
    }

    private func job() -> String {
        if world.chance(conditions.states) {
            let app = conditions.apps.count == 1 ? 0 : world.number(in: 0...conditions.apps.count - 1)
            return state(world.number(in: 0...conditions.scopes - 1), app: app)
        }
        let isExpiring = world.chance(conditions.expiring)
        let count = world.chance(conditions.shared) ? [2, 20, 300][world.number(in: 0...2)] : 1
        let app = conditions.apps.count == 1 ? 0 : world.number(in: 0...conditions.apps.count - 1)
        let numbers = (0..<count).map { _ in ledger.produce(mayExpire: isExpiring, app: app) }
        let tokens = numbers.map { "\"\(Ledger.token($0))\"" }
        let target = count == 1 ? "\"token\":\(tokens[0])" : "\"tokens\":[\(tokens.joined(separator: ","))]"
        var members = #"\#(target),"data":{"aps":{"badge":1}},"identifier":\#(numbers[0])"#
        if isExpiring { members += #","expiry":\#(world.number(in: 1...30))"# }
        if world.chance(conditions.later) {
            let due = world.clock.wallClock.seconds + 20 * world.fraction()
            members += #","not_before":\#(Int(due))"#
        }
        if let name = conditions.apps[app] { members += #","app":"\#(name)""# }
        return "{\(members)}"
    }

    // MARK: Faults

    private func plan(_ kind: Fault, every interval: Int64) {
        world.after(world.time(in: 0...2 * interval)) { [unowned self] in
            if isCalm { return }
            inject(kind)
            plan(kind, every: interval)
        }
    }

    /// A running worker.
    private func anyWorker() -> SimulatedWorker? {
        let running = workers.filter { $0.stoppedUntil <= world.time }
        return running.isEmpty ? nil : running[world.number(in: 0...running.count - 1)]
    }

    private func anyPushLink() -> PushLink? {
        let open = workers.filter { $0.stoppedUntil <= world.time }.flatMap(\.pools).flatMap(\.sessions).map(\.link).filter(
            \.isUp)
        return open.isEmpty ? nil : open[world.number(in: 0...open.count - 1)]
    }

    private func inject(_ kind: Fault) {
        guard let worker = anyWorker() else { return }
        switch kind {
        case .crash:
            worker.crash()
            ended(worker)
            world.after(world.skewed(upTo: 5 * .second)) { [unowned self] in start() }
        case .freeze: worker.freeze(until: world.time + world.time(in: 0...40 * .second))
        case .stop:
            if worker.isStopping { return }
            worker.stop()
            world.after(world.skewed(upTo: 5 * .second)) { [unowned self] in start() }
        case .reload: worker.reload()
        case .redisCut, .redisHalfOpen, .redisReplyLost: breakRedis(kind, worker)
        case .redisStall:
            for worker in workers { ledger.hasFault(worker.number) }
            redis.stall(for: world.skewed(upTo: 20 * .second))
        case .redisRestart:
            for worker in workers { ledger.hasFault(worker.number) }
            redis.restart(for: world.skewed(upTo: 20 * .second))
        case .redisFlush:
            redis.flush(holding: heldJobs { _ in true }, workers: Set(workers.map(\.number)))
            // The moment in which a worker puts its jobs back is short.
            if world.chance(0.5) { world.after(world.skewed(upTo: .second)) { [unowned self] in cutRedis() } }
        case .redisRollback:
            redis.save()
            world.after(world.skewed(upTo: 5 * .second)) { [unowned self] in
                if isCalm { return }
                for worker in workers where !worker.queue.isBehind { ledger.hasNoticed(worker.number) }
                redis.restore(holding: heldJobs { _ in true }, workers: Set(workers.map(\.number)))
            }
        case .redisClock: redis.shiftClock(by: world.time(in: -60 * .second...60 * .second))
        case .scriptFlush: redis.forgetScripts()
        case .pause: redis.pause(for: world.skewed(upTo: 5 * .second))
        case .unreachable: anyAPNs().unreachableUntil = world.time + world.skewed(upTo: 10 * .second)
        case .overload: anyAPNs().change(to: 503, "ServiceUnavailable", for: world.skewed(upTo: 3 * .second))
        case .credential: anyAPNs().change(to: 403, "InvalidProviderToken", for: world.skewed(upTo: 3 * .second))
        case .expiredToken: anyAPNs().change(to: 403, "ExpiredProviderToken", for: world.skewed(upTo: .second / 10))
        case .pushCut, .pushSilent, .pushStall, .goAway, .goAwayAndCut, .fewerStreams:
            guard let link = anyPushLink() else { return }
            disturb(link, kind)
        }
        world.note(.fault, kind.rawValue, worker.number)
        faults[kind.rawValue] += 1
    }

    private func anyAPNs() -> SimulatedAPNs { apns.count == 1 ? apns[0] : apns[world.number(in: 0...apns.count - 1)] }

    private func planDisturbance() {
        guard let disturbance = conditions.disturbance, let apns = apns.last else { return }
        world.at(disturbance.begin) { [world] in
            world.note(.disturbed, apns.app)
            apns.disturb(disturbance.kind)
        }
        if let end = disturbance.end { world.at(end) { apns.endDisturbance() } }
    }

    /// The jobs in the memory of these workers.
    private func heldJobs(of areMeant: (SimulatedWorker) -> Bool) -> Set<Int> {
        Set(workers.filter(areMeant).flatMap(\.heldJobs))
    }

    private func cutRedis() {
        if !isCalm, let worker = anyWorker() { breakRedis(.redisCut, worker) }
    }

    private func breakRedis(_ kind: Fault, _ worker: SimulatedWorker) {
        ledger.hasFault(worker.number)
        let links = [worker.queue.control, worker.queue.waiter].compactMap { $0 }
        if links.isEmpty { return }
        let both = world.chance(0.5)
        for link in both ? links : [links[world.number(in: 0...links.count - 1)]] {
            switch kind {
            case .redisCut: link.cut()
            case .redisHalfOpen: link.halfOpen()
            default: link.loseReply()
            }
        }
    }

    private func disturb(_ link: PushLink, _ kind: Fault) {
        switch kind {
        case .pushCut: link.cut()
        case .pushSilent: link.fallSilent()
        case .pushStall: link.stall(for: world.skewed(upTo: 5 * .second))
        case .goAway: link.goAway(thenCut: nil)
        case .goAwayAndCut: link.goAway(thenCut: world.skewed(upTo: 300 * .millisecond))
        default: link.changeStreams(to: world.number(in: 0...conditions.profile.streams))
        }
    }

    // MARK: The end

    private func calm() {
        isCalm = true
        for apns in apns { apns.calm() }
        while workers.count < 1 { start() }
    }

    /// The jobs of the other apps end, although one is still disturbed.
    private func endOthers() {
        guard let disturbance = conditions.disturbance, let disturbed = apns.last else { return }
        defer {
            world.at(world.time) { disturbed.endDisturbance() }
            world.run(until: world.time)
        }
        if disturbance.end != nil { return }
        world.run(until: world.time + DaemonRun.aftermath)
        let begin = world.time
        while world.failure == nil {
            let left = redis.contents().filter { ledger.jobs.indices.contains($0) && ledger.jobs[$0].app != disturbed.app }
            if left.isEmpty { return }
            if world.time >= begin + DaemonRun.undisturbed {
                let text = "\(left.count) jobs of another app wait while one is disturbed (\(disturbance.kind))"
                return world.fail(text, job: left.min())
            }
            world.run(until: world.time + 2 * .second)
        }
    }

    /// Nothing is left to do.
    private func isSettled() -> Bool {
        let status = redis.status()
        return status.backlog + status.delayed + status.inFlight + status.recovered == 0
            && status.campaigns.allSatisfy { $0.waiting == 0 }
            && Set(status.workers.map(\.name)) == Set(workers.map(\.name)) && workers.allSatisfy(\.isIdle)
    }

    private func settle() {
        let end = world.time + DaemonRun.timeout
        world.run(until: world.time + DaemonRun.aftermath)
        while world.failure == nil {
            world.run(until: world.time + .second)
            if world.failure != nil || isSettled() { return }
            if world.time >= end {
                let status = redis.status()
                let counts = "\(status.backlog) wait, \(status.delayed) delayed, \(status.recovered) recovered"
                return world.fail("not drained: \(counts), \(status.inFlight) in flight")
            }
        }
    }

    private func leave() {
        for worker in workers { worker.stop() }
        world.run(until: world.time + 60 * .second) { [unowned self] in workers.isEmpty }
        if !workers.isEmpty { world.fail("worker \(workers[0].number) does not stop") }
    }

    private func check() {
        for record in redis.records(SimulatedRedis.keys.dead) {
            if let letter = DeadLetter(record: record) {
                ledger.deadLetter(letter)
            } else {
                world.fail("an unreadable dead letter")
            }
        }
        let status = redis.status()
        ledger.check(maybeDuplicates: redis.maybeDuplicates)
        if status.unexplained != 0 { world.fail("claimed jobs without an end: \(status.unexplained)") }
        if !ledger.isForgetful { checkStates(status) }
        // The record of a pause that has ended stays until the next beat.
        let keys = SimulatedRedis.keys
        // The records of scopes stay for a while.
        let ofScopes = [keys.slots, keys.asides, keys.paced] + conditions.apps.map { keys.scope($0 ?? "") }
        let kept = [keys.dead, keys.feedback, keys.stats, keys.paused, keys.campaigns] + ofScopes
        let left = redis.allKeys().filter { !kept.contains($0) && !$0.hasPrefix(keys.campaign("")) }
        if !left.isEmpty { world.fail("keys are left: \(left)") }
    }

    private func checkStates(_ status: QueueStatus) {
        let superseded = Int(status.counters[.superseded, default: 0])
        let expected = ledger.sums.superseded...ledger.sums.superseded + ledger.doubtfulStates
        if !expected.contains(superseded) { world.fail("superseded is \(superseded); expected \(expected)") }
        if conditions.shared > 0 { return }
        let ends: [Counter] = [.sent, .dead, .expired, .superseded]
        let ended = ends.reduce(0) { $0 + Int(status.counters[$1, default: 0]) }
        if ended != ledger.jobs.count { world.fail("\(ended) jobs have ended of \(ledger.jobs.count) that were pushed") }
    }

    // MARK: The match

    /// The age of the state that a channel shows, each second: in seconds.
    struct Ages {
        var shown: [Double] = []
        /// With a schedule that knows the limits: the updates of each minute have the same distance.
        var best: [Double] = []

        /// The median and the 99th percentile, and their factors above the best schedule.
        static func text(_ ages: [Double], _ best: [Double]) -> String {
            func at(_ share: Double, _ ages: [Double]) -> Double {
                ages.isEmpty ? 0 : ages.sorted()[Int(share * Double(ages.count - 1))]
            }
            func part(_ name: String, _ share: Double) -> String {
                let (age, least) = (at(share, ages), at(share, best))
                return "\(name) \((age * 10).rounded() / 10) s (\((age / max(least, 1) * 10).rounded() / 10)x)"
            }
            return "\(part("median", 0.5)), \(part("p99", 0.99))"
        }
    }

    var refused: Int { apns.reduce(0) { $0 + $1.refused } }

    /// The ages of all channels by a rule alone, on the limits of this run.
    func ages(_ match: Conditions.Match, by rule: Schedule.Rule) -> [Double] {
        apns[0].minutes.sorted { $0.key < $1.key }.flatMap { _, minutes in
            var schedule = Schedule(rule, minutes.prefix(match.minutes).map(\.limit), hasRetryAfter: match.hasRetryAfter)
            return schedule.ages()
        }
    }

    /// From the second minute on.
    func ages(_ match: Conditions.Match) -> Ages {
        var ages = Ages()
        let minutes = apns[0].minutes
        let interval = 60.0 / Double(match.updatesPerMinute)
        for (number, scope) in ledger.scopes {
            var next = scope.accepted[...]
            var shown: Int64?
            for second in 1..<60 * match.minutes {
                let time = Int64(second) * .second
                while let first = next.first, first.time <= time {
                    shown = max(shown ?? 0, ledger.jobs[first.job].arrived)
                    next = next.dropFirst()
                }
                guard second >= 60, let shown, let limits = minutes[number] else { continue }
                ages.shown.append(Double(time - shown) / Double(Int64.second))
                let minute = limits[min(second / 60, limits.count - 1)]
                let step = 60.0 / Double(minute.limit)
                let within = Double(second % 60)
                let begun = (within / step).rounded(.down) * step
                // The newest state at the time of the update.
                ages.best.append(within - (begun / interval).rounded(.down) * interval)
            }
        }
        return ages
    }
}
