import Clocks
import PushPool
import RedisQueue

/// From Redis to the pools.
extension Dispatcher {
    /// Tells each list how many jobs could go out now. A list of lower priority is asked while those before it are empty.
    mutating func offerPlaces() {
        nextRefill = nil
        var places = 0
        if phase == .running { for app in apps { places += withinBrake(app.places(now: now), of: app) } }
        places = withinLimits(places)
        // Whose jobs come next nobody knows: the places of one app must not fill another beyond measure.
        let most = apps.reduce(Int.max) { min($0, $1.room) }
        for list in lists {
            if let paused = list.pausedUntil, paused <= now { list.pausedUntil = nil }
            let mayClaim = list.pausedUntil == nil && !list.isInDoubt
            list.queue.offer(places: mayClaim ? min(list.rounds.places(places), most) : 0, now: now)
            if mayClaim && lists.count > 1 && list.queue.wantsPlaces(now: now) { places = 0 }
        }
    }

    /// Under a limit of pushes or bits a second no more jobs wait here than half a second carries: the others stay where LLEN
    /// counts them.
    private mutating func withinLimits(_ places: Int) -> Int {
        guard places > 0, let holding = pacer.holding else { return places }
        let waiting = apps.reduce(0) { $0 + $1.waiting }
        return refill(places, holding: holding, waiting: waiting, halfGoneIn: pacer.duration(of: (waiting + 1) / 2))
    }

    /// The same for one app that APNs has asked for calm.
    private mutating func withinBrake(_ places: Int, of app: PushApp) -> Int {
        guard places > 0, let brake = app.pool.calmLimit else { return places }
        let waiting = app.waiting
        let half = Duration.seconds(Double((waiting + 1) / 2) / Double(brake))
        return refill(places, holding: max(1, brake / 2), waiting: waiting, halfGoneIn: half)
    }

    /// Nobody says when a session takes something: it is asked again when half of what waits is gone.
    private mutating func refill(_ places: Int, holding: Int, waiting: Int, halfGoneIn half: Duration) -> Int {
        let room = max(0, holding - waiting)
        guard room < places, room < (holding + 1) / 2 else { return min(places, room) }
        let again = now + max(.milliseconds(5), half)
        nextRefill = min(nextRefill ?? again, again)
        return room
    }

    mutating func happened(_ event: QueueEvent, list: Int) {
        switch event {
        case .connected: lists[list].isConnected = true
        case .disconnected, .refused: lists[list].isConnected = false
        default: break
        }
        switch event {
        case .claimed(let jobs): claimed(jobs, list: list)
        case .suspects(let jobs): for job in jobs { buryCrashSuspect(job, list: list) }
        case .disowned(let claims): disowned(Set(claims), list: list)
        case .leaseInDoubt: leaseInDoubt(list)
        case .connected(let warnings): connected(list, warnings)
        case .disconnected(let why): log.warning("Redis: \(why). Jobs stay in the queue; trying again.")
        case .refused(let why): refused(why, list: list)
        case .limited(let why): log.warning("Redis: \(why).")
        case .deadLettersTrimmed(let count):
            log.warning("\(count) dead letters beyond redis_dead_letter_max were dropped from \(lists[list].name).")
        case .deadLettersMany(let count):
            log.warning("\(lists[list].name) has \(count) dead letters: look at them, or set redis_dead_letter_max.")
        case .recovered(let worker, let jobs): log.warning("Took over \(jobs.counted("job")) of the dead worker \(worker).")
        case .stopped: lists[list].isStopped = true
        }
    }

    private mutating func connected(_ list: Int, _ warnings: [String]) {
        hasConnected = true
        lists[list].isInDoubt = false
        let place = lists[list].queue.discoveredServer.map { " at \($0)" } ?? ""
        log.info("Connected to Redis\(place), list \(lists[list].name).")
        for warning in warnings { log.warning("Redis: \(warning)") }
    }

    private mutating func refused(_ why: RedisError, list: Int) {
        if hasConnected {
            let remedies = [RedisRefusal.fault(why, settings).remedy, RedisRefusal.checkHint(why)].filter { !$0.isEmpty }
            let hint = remedies.isEmpty ? "" : " (\(remedies.joined(separator: "; ")))"
            log.error("Redis refuses: \(why)\(hint). Jobs stay in the queue; trying again every 5 s.")
        } else {
            startFault = why
        }
    }

    private mutating func claimed(_ jobs: [ClaimedJob], list: Int) {
        counters.claimed += jobs.count
        lists[list].cutBytes = 0
        var givenBack: [ClaimedJob] = []
        for job in jobs where !take(job, list: list) { givenBack.append(job) }
        if apps.count == 1 { return }
        // Jobs of apps that cannot send: turning them round at full speed would help nobody.
        let pause = lists[list].rounds.claimed(placed: jobs.count - givenBack.count, givenBack: givenBack, now: now)
        lists[list].pausedUntil = pause.map { now + $0 }
    }

    /// Finds out what a job is and where it goes. False if it was given back.
    private mutating func take(_ claim: ClaimedJob, list: Int) -> Bool {
        guard case .running = phase else { return giveBack(claim, list: list, toTail: false) }
        do {
            return start(try reader.read(claim.bytes), of: claim, list: list)
        } catch {
            buryUnreadable(claim, list: list, error)
            return true
        }
    }

    /// Puts a job on its way, or settles it if this is not its time. False if it was given back.
    private mutating func start(_ job: consuming Job, of claim: ClaimedJob, list: Int) -> Bool {
        if case .tokens = job.target { return cut(job, of: claim, list: list) }
        if let due = job.notBefore, due > wallClock.seconds {
            if let hint = job.notBeforeHint {
                log.warning("A job (ID \(String(decoding: job.identifierJSON, as: UTF8.self))) is held: \(hint).")
            }
            // Redis' sorted sets hold doubles: past 2^53 ms a time is beyond any calendar.
            let milliseconds = Int64(min(due * 1000, 9_007_199_254_740_992))
            let effect = Settlement.Effect.delay(job: claim.bytes, .at(milliseconds: milliseconds), isRetry: false)
            lists[list].queue.settle(Settlement(id: claim.id, effect: effect))
            counters.postponed += 1
            return true
        }
        let number: Int
        do {
            number = try route(job)
        } catch {
            buryUnreadable(claim, list: list, error)
            return true
        }
        let app = apps[number]
        guard app.takesOne(now: now) else {
            return giveBack(claim, list: list, toTail: apps.count > 1)
        }
        let time = wallClock.unixSeconds
        let expiration = job.expiration(now: time)
        let isExpired = job.isExpired(now: time)
        let held = HeldJob(job, list: list, claim: claim.id, app: number, expiration: expiration)
        if isExpired {
            buryExpired(held, wasSent: false)
        } else if isStoppedByFilter(held) {
            buryFiltered(held)
        } else if held.job.attempts > 0 {
            held.avoiding = memory.session(toAvoid: TokenMemory.Key(app: number, token: held.token))
            send(held, by: app)
        } else if !memory.hasPauses(now: now) || !waitsBehindAnother(held, claim) {
            send(held, by: app)
        }
        return true
    }

    /// Replaces a job for many devices by its parts. One that would be too much at once goes back: its turn comes when the parts of
    /// those before it are out.
    private mutating func cut(_ job: borrowing Job, of claim: ClaimedJob, list: Int) -> Bool {
        guard lists[list].cutBytes < List.mostCutBytes, let parts = job.parts() else {
            return giveBack(claim, list: list, toTail: false)
        }
        lists[list].cutBytes += parts.reduce(0) { $0 + $1.count }
        lists[list].queue.settle(Settlement(id: claim.id, effect: .split(into: parts)))
        counters.released += 1
        return true
    }

    /// A newer job waits as long as APNs wants no more for its token.
    private mutating func waitsBehindAnother(_ job: HeldJob, _ claim: ClaimedJob) -> Bool {
        let key = TokenMemory.Key(app: job.app, token: job.token)
        guard let pause = memory.pause(key, now: now) else { return false }
        lists[job.list].queue.settle(
            Settlement(id: claim.id, effect: .delay(job: claim.bytes, .after(pause), isRetry: false)))
        counters.postponed += 1
        return true
    }

    private mutating func send(_ job: HeldJob, by app: PushApp) {
        app.held += 1
        if case .held = app.gate.phase { app.gate.probed() }
        app.outgoing.append(app.notification(held.insert(job), job))
    }

    /// The app that the job names, by `app` or by `topic`, else the one of the top level. Nothing goes out without a topic.
    private func route(_ job: borrowing Job) throws(JobError) -> Int {
        guard let app = routes.app(name: job.app, topic: job.topic) else {
            if let name = job.app { throw .structure("app \"\(name)\" is unknown") }
            let topic = job.topic.map { "no app has the topic \($0)" }
            throw .structure(topic ?? "app and topic are missing, and the settings have no credential at the top level")
        }
        if apps[app].lacksTopic(for: job) { throw .structure("topic is missing, and \(apps[app].words) has none") }
        return app
    }

    private mutating func giveBack(_ claim: ClaimedJob, list: Int, toTail: Bool) -> Bool {
        counters.released += 1
        lists[list].queue.settle(Settlement(id: claim.id, effect: .release(toTail: toTail)))
        return false
    }

    private mutating func leaseInDoubt(_ list: Int) {
        lists[list].isInDoubt = true
        let what = lists.count == 1 ? "" : " of \(lists[list].name)"
        log.warning("No word from Redis for most of the lease: nothing more\(what) goes on the wire until it answers.")
        let numbers = Set(held.numbers { $0.list == list })
        for app in apps {
            for number in app.pool.withdraw(numbers) {
                if let job = held[number] { app.outgoing.append(app.notification(number, job)) }
            }
        }
    }

    /// Jobs that another worker has now: what is not on the wire is dropped; what is gets its answer, which settles nothing.
    private mutating func disowned(_ claims: Set<ClaimID>, list: Int) {
        let numbers = Set(held.numbers { $0.list == list && claims.contains($0.claim) })
        for app in apps {
            let unsent = Set(app.outgoing.map(\.id)).intersection(numbers)
            app.outgoing.removeAll { unsent.contains($0.id) }
            for number in app.pool.withdraw(numbers) + unsent { forget(number) }
        }
        for number in numbers where held[number]?.suspectAnswer != nil { forget(number) }
        for number in numbers { held[number]?.isDisowned = true }
        log.warning("\(claims.count) jobs were taken over by another worker.")
    }

    mutating func forget(_ number: UInt64) {
        if let job = held.remove(number) { apps[job.app].noLongerHolds(job) }
    }
}
