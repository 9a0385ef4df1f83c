import Platform

/// Decides what the queue sends next, and reads the replies. Knows no socket, no clock and no C.
///
/// A worker connects twice to its server: the first connection carries every script, the second one waits for jobs. Once both are
/// open, the worker registers under a connection number higher than any before, so that the calls of its former connections are
/// refused. It then compares what Redis keeps for it with what it holds: settlements that were not applied are sent again, jobs
/// that only Redis knows are fetched, and jobs that only the worker knows are disowned, because another worker has them now.
/// After that it serves: it beats, reaps dead workers, promotes delayed jobs, settles, claims and waits, each when it is due.
/// Every failure leads back to `disconnected` with all held jobs and unconfirmed settlements kept. A stop gives the held jobs
/// back, waits for the confirmation of every settlement, and unregisters the worker.
///
///     phase          fact                                  next phase
///     disconnected   the pause is over                     dialing
///     disconnected   stopping, nothing held                stopped
///     dialing        both connections are open             registering
///     registering    another process has the record        registering, under a new name
///     registering    registered                            reconciling
///     reconciling    the last expected reply               serving
///     serving        stopping, all settled and reaped      unregistering
///     unregistering  nothing is left in Redis              stopped
///     unregistering  Redis still has jobs of this worker   disconnected
///     any of these   lost, refused, redirected, fenced     disconnected
///
/// Each turn of the shell reports facts and ends with `advance`. Effects are appended to the shell's array.
struct QueueMachine {
    enum Phase: Equatable { case disconnected, dialing, registering, reconciling, serving, unregistering, stopped }
    typealias Effect = QueueEffect

    private(set) var phase = Phase.disconnected
    /// The number of the connection, which each call of a registered worker carries.
    private(set) var number: Int64 = 0
    private var outstanding: OutstandingCalls = []
    private(set) var work: Workload
    private var liveness: Liveness
    private var reconciliation = Reconciliation()
    private var reconnection: Reconnection
    private var notices = Notices()
    /// Whether a claim, or where nothing is claimed a wait or beat, has worked since the registration.
    private var hasWorked = false
    /// The number of the last record that could not be continued.
    private var foreignNumber = ""
    /// Redis had jobs of this worker, or side lists and no other worker, at the end of a stop. The next connection gives the jobs
    /// back.
    private var leavesJobs = false

    init(settings: QueueSettings, worker: String, seed: UInt64, now: Instant) {
        work = Workload(mode: settings.mode)
        liveness = Liveness(lease: settings.lease, own: worker, mode: settings.mode, now: now)
        reconnection = Reconnection(seed: seed, now: now)
    }

    /// When the last confirmed beat was sent.
    var lastContact: Instant? { liveness.lastContact }

    /// The time from which no held job may be sent unless a later beat is confirmed.
    var sendingDeadline: Instant? { mutating get { phase == .stopped ? nil : liveness.doubtDeadline } }

    // MARK: Connection

    /// Both connections are open, and the server has accepted the user.
    mutating func connected(into effects: inout [Effect]) {
        number += 1
        phase = .registering
        hasWorked = false
        let registration = Registration(
            counter: liveness.nextCounter(), confirmed: work.jobs.confirmed, isExpected: reconciliation.isRegistered,
            sealed: work.jobs.sealed, answered: reconciliation.answered)
        effects.append(.call(.register(registration)))
    }

    /// There is no connection, or none that serves. State is kept, and the next dial follows after a pause.
    ///
    /// - Parameter isError: whether the server has replied an error.
    mutating func lost(_ reason: String, isError: Bool = false, now: Instant, into effects: inout [Effect]) {
        if phase == .disconnected || phase == .stopped { return }
        reconnection.failed(isError: isError && phase == .serving, now: now)
        disconnect(reporting: .disconnected(reason), isError: isError, into: &effects)
    }

    /// The server refuses the user, the password, a right or a key type: only an operator can change that.
    mutating func refused(_ error: RedisError, now: Instant, into effects: inout [Effect]) {
        reconnection.refused(now: now)
        disconnect(reporting: .refused(error), isError: true, into: &effects)
    }

    /// Another node of the cluster has the list.
    private mutating func redirected(_ error: ErrorReply, to node: ErrorReply.Node?, now: Instant, into effects: inout [Effect]) {
        reconciliation.redirected()
        effects.append(.follow(node))
        let isEndless = reconnection.redirected(now: now)
        let reason = "the nodes of the cluster do not agree on which of them has the list (\(error))"
        disconnect(reporting: isEndless ? .disconnected(reason) : nil, into: &effects)
    }

    /// Redis does not know this worker: others have taken over its jobs, or Redis was emptied or put back to an earlier state.
    private mutating func fenced(now: Instant, into effects: inout [Effect]) {
        if liveness.doubt() { effects.append(.report(.registrationLost)) }
        lost("this worker is not registered any more; it registers again", now: now, into: &effects)
    }

    /// The worker has a new name, after the effect `rename`. It registers at once.
    mutating func renamed(to worker: String, into effects: inout [Effect]) {
        liveness.renamed(to: worker)
        reconciliation.renamed()
        effects.append(.report(.renamed(worker: worker, number: foreignNumber)))
        connected(into: &effects)
    }

    private mutating func disconnect(reporting event: QueueEvent?, isError: Bool = false, into effects: inout [Effect]) {
        if phase == .stopped { return }
        if phase != .disconnected { effects.append(.hangUp) }
        phase = .disconnected
        outstanding = []
        work.connectionLost()
        liveness.connectionLost()
        reconciliation.connectionLost()
        report(event.flatMap { notices.disconnected($0, isRefused: isError) }, into: &effects)
    }

    private mutating func startServing(now: Instant, into effects: inout [Effect]) {
        phase = .serving
        leavesJobs = false
        work.beginServing(now: now)
        liveness.beginServing(now: now)
        liveness.watch(notices.pauses, now: now)
        let (warnings, lengths) = reconciliation.finish()
        effects.append(.report(notices.connected(warnings)))
        for records in RecordList.allCases { report(notices.counted(records, lengths[records] ?? 0), into: &effects) }
    }

    /// The claims work: the next disconnection is a new one.
    private mutating func worked(into effects: inout [Effect]) {
        if hasWorked { return }
        hasWorked = true
        reconnection.succeeded()
        report(notices.worked(), into: &effects)
    }

    private func report(_ event: QueueEvent?, into effects: inout [Effect]) { if let event { effects.append(.report(event)) } }

    private mutating func finish(into effects: inout [Effect]) {
        phase = .stopped
        effects += [.hangUp, .report(.stopped)]
    }

    // MARK: The owner

    mutating func offer(places: Int, now: Instant) { work.offer(places: places, now: now) }
    mutating func offer(places: Int, aside app: String, now: Instant) { work.offer(places: places, aside: app, now: now) }
    mutating func restore(_ app: String) { work.restore(app) }
    mutating func reportAsides(into effects: inout [Effect]) { work.reportAsides(into: &effects) }
    mutating func acknowledge(_ id: ClaimID, now: Instant) { work.acknowledge(id, now: now) }
    mutating func settle(_ settlement: Settlement, now: Instant) { work.settle(settlement, now: now) }
    mutating func countMaybeDuplicate(now: Instant) { work.countMaybeDuplicate(now: now) }

    mutating func stop() { work.stop() }

    /// Whether this list may hold jobs that could be claimed if there were places; a list of lower priority waits for it.
    mutating func wantsPlaces(at now: Instant) -> Bool {
        switch phase {
        case .dialing, .registering, .reconciling: reconnection.isFirstDial
        case .serving: work.wantsPlaces(at: now, isInDoubt: liveness.isInDoubt)
        case .disconnected, .unregistering, .stopped: false
        }
    }

    // MARK: Time

    /// Does everything that is due. Each turn ends with it.
    mutating func advance(now: Instant, into effects: inout [Effect]) {
        if phase != .stopped, liveness.doubtIfDue(now: now) { effects.append(.report(.leaseInDoubt)) }
        switch phase {
        case .disconnected:
            if work.isStopping && work.jobs.isEmpty && !leavesJobs {
                // A claim whose reply was lost may have left jobs in Redis. The next worker reaps them.
                finish(into: &effects)
            } else if now >= reconnection.dialsAt {
                phase = .dialing
                effects.append(.dial)
            }
        case .serving: serve(now: now, into: &effects)
        case .dialing, .registering, .reconciling, .unregistering, .stopped: break
        }
    }

    /// The time at which `advance` has something to do.
    var deadline: Instant? {
        mutating get {
            var next = Earliest()
            if phase != .stopped { next.consider(liveness.doubtDeadline) }
            switch phase {
            case .disconnected: next.consider(reconnection.dialsAt)
            case .serving:
                next.consider(liveness.deadline(outstanding))
                next.consider(work.deadline(isInDoubt: liveness.isInDoubt))
            case .dialing, .registering, .reconciling, .unregistering, .stopped: break
            }
            return next.instant
        }
    }

    private mutating func serve(now: Instant, into effects: inout [Effect]) {
        // Also while the reply to an earlier beat waits behind a large reply: the beat itself arrives in time.
        if let counter = liveness.nextBeat(now: now) {
            let beat = Beat(counter: counter, settled: work.jobs.confirmed, chunk: work.jobs.newestChunk)
            call(.beat(beat), .beat, into: &effects)
        }
        if outstanding.isDisjoint(with: [.beat, .inspection]), liveness.isInspectionDue(now: now) {
            call(work.inspection, .inspection, into: &effects)
        }
        if !outstanding.contains(.reap), let dead = liveness.takeDead() {
            call(.reap(Reap(dead: dead, chunk: work.reserveChunk())), .reap, into: &effects)
        }
        work.reportAsides(into: &effects)
        if !work.isStopping { return work.serve(now: now, isInDoubt: liveness.isInDoubt, into: &effects) }
        // The known dead workers are reaped before: this may be the last worker for a long time.
        let isReaping = outstanding.contains(.reap) || liveness.isReaping
        if work.leave(now: now, isInDoubt: liveness.isInDoubt, into: &effects) && !isReaping {
            phase = .unregistering
            effects.append(.call(.unregister))
        }
    }

    private mutating func call(_ call: Call, _ kind: OutstandingCalls, into effects: inout [Effect]) {
        outstanding.insert(kind)
        effects.append(.call(call))
    }

    // MARK: Replies

    /// Takes in the reply to a call.
    ///
    /// - Parameters:
    ///   - sentAt: when the call was sent. The reply describes no earlier state.
    ///   - isGone: whether the process of a worker is certainly gone, by its name.
    mutating func received(
        _ reply: RedisReply, to call: Call, sentAt: Instant, now: Instant, isGone: (String) -> Bool,
        into effects: inout [Effect]
    ) {
        // A reply on the second connection does not show that the first one works.
        if !call.isOnSecond { liveness.replied(now: now) }
        // The outstanding `unregister` counts a chunk that this claim may have brought.
        if phase == .unregistering && call.isOnSecond && call != .wait { return }
        if case .error(let error) = reply { return failed(call, error, now: now, into: &effects) }
        switch call.isFenced ? reply.text.flatMap(Lua.Status.init) : nil {
        case .fenced: return fenced(now: now, into: &effects)
        case .stale: return lost("another connection took over this worker's number", now: now, into: &effects)
        case .taken:
            return lost("Redis already has a chunk with the number of this claim", now: now, into: &effects)
        case .gap: return foundGap(before: call, now: now, into: &effects)
        case nil: break
        }
        // A wait with a claim behind it shows nothing: that claim may fail each time.
        let mayWork = phase == .serving && work.shows(call)
        switch understand(reply, to: call, sentAt: sentAt, now: now, isGone: isGone, into: &effects) {
        case .good: if mayWork { worked(into: &effects) }
        case .unintelligible: lost("a reply of an unexpected form", now: now, into: &effects)
        case .lost(let reason): lost(reason, now: now, into: &effects)
        }
    }

    /// Redis lacks the settlement or the claim before this call: it met NOSCRIPT and has been sent again, or Redis has confirmed
    /// it and was put back to an earlier state since. Then only a registration brings the losses to light.
    private mutating func foundGap(before call: Call, now: Instant, into effects: inout [Effect]) {
        if case .settle(let batch) = call, !work.jobs.isOldestUnconfirmed(batch.sequence) { return effects.append(.call(call)) }
        lost("Redis has lost claims or settlements that it had confirmed", now: now, into: &effects)
    }

    private mutating func understand(
        _ reply: RedisReply, to call: Call, sentAt: Instant, now: Instant, isGone: (String) -> Bool,
        into effects: inout [Effect]
    ) -> ReplyReading {
        let items = reply.items ?? []
        switch call {
        case .register: return registered(items, sentAt: sentAt, now: now, isGone: isGone, into: &effects)
        case .claim(let claim):
            guard let reply = Claim.Reply(items) else { return .unintelligible }
            learned(reply.pauses, now: now, into: &effects)
            if reply.isSlow { report(notices.limited(.copying), into: &effects) }
            work.claimed(claim, reply, sentAt: sentAt, now: now, into: &effects)
        case .jobs(let claim): return work.arrived(items, chunk: claim.chunk, now: now, into: &effects) ?? .good
        case .pop(.jobs(let count)): return work.popped(reply, asked: count, now: now, into: &effects) ? .good : .unintelligible
        case .settle(let batch): return settled(batch, items, now: now, into: &effects)
        case .beat: return beatConfirmed(items, sentAt: sentAt, now: now, isGone: isGone, into: &effects)
        case .promote:
            guard let promoted = Promotion.Reply(items) else { return .unintelligible }
            work.promoted(promoted, now: now)
        case .reap(let reap): return reaped(reap, items, now: now, into: &effects)
        case .fetch(let fetch):
            if let reading = work.arrived(items, chunk: fetch.chunk, now: now, into: &effects) { return reading }
            work.fetched(items, chunk: fetch.chunk, places: fetch.places, into: &effects)
            reconciled(now: now, into: &effects)
        case .info:
            if reconciliation.informed(ServerInfo(reply.text ?? "")) { expect(.nodes, into: &effects) }
            reconciled(now: now, into: &effects)
        case .nodes:
            effects.append(.learn(items))
            reconciled(now: now, into: &effects)
        case .unregister: return unregistered(reply, into: &effects)
        case .wait: work.waited(reply, now: now, into: &effects)
        case .inspect: return inspected(reply, now: now)
        case .pop(.aside(let app, _)): return work.took(items, of: app, now: now, into: &effects) ? .good : .unintelligible
        case .restore(let restore):
            guard let left = reply.integer else { return .unintelligible }
            work.restored(restore.app, left: left)
        case .adopt(let adopted):
            guard let reply = Adoption.Reply(items) else { return .unintelligible }
            work.adopted(adopted, reply, into: &effects)
            reconciled(now: now, into: &effects)
        case .pop(.merge), .greeting: break
        }
        return .good
    }

    private mutating func failed(_ call: Call, _ error: ErrorReply, now: Instant, into effects: inout [Effect]) {
        if case .moved(let node) = error.kind { return redirected(error, to: node, now: now, into: &effects) }
        switch call {
        case .wait where error.kind != .passwordMissing:
            report(work.waitFailed(error, now: now).flatMap { notices.limited($0) }, into: &effects)
        case .info, .nodes:
            // A user without the right to ask gets no warnings, and loses nothing.
            reconciled(now: now, into: &effects)
        case .pop(.jobs) where error.kind == .wrongArgumentCount && work.popCountRefused(now: now):
            report(notices.limited(.popCount), into: &effects)
        default:
            if error.isRefusal {
                refused(.reply(error), now: now, into: &effects)
            } else {
                lost(error.description, isError: true, now: now, into: &effects)
            }
        }
    }

    // MARK: Serving

    private mutating func settled(
        _ batch: SettleBatch, _ items: [RedisReply], now: Instant, into effects: inout [Effect]
    ) -> ReplyReading {
        guard let reply = SettleBatch.Reply(items) else { return .unintelligible }
        work.settled(batch.sequence, due: reply.due, now: now)
        let events = notices.grew(.deadLetters, reply.deadLetters) + notices.grew(.feedback, reply.feedback)
        effects += events.map(Effect.report)
        return .good
    }

    private mutating func inspected(_ reply: RedisReply, now: Instant) -> ReplyReading {
        guard let found = reply.integer else { return .unintelligible }
        outstanding.remove(.inspection)
        switch work.inspected(found: found) {
        case .complete: break
        case .missing: liveness.inspect(after: PiggybackedClaim.inspectionInterval, now: now)
        case .lost: return .lost("jobs did not arrive: the second connection is dead")
        }
        return .good
    }

    private mutating func beatConfirmed(
        _ items: [RedisReply], sentAt: Instant, now: Instant, isGone: (String) -> Bool, into effects: inout [Effect]
    ) -> ReplyReading {
        guard let reply = Beat.Reply(items) else { return .unintelligible }
        outstanding.remove(.beat)
        liveness.beatConfirmed(sentAt: sentAt)
        if liveness.isRestored(at: now) { startServing(now: now, into: &effects) }
        work.learned(reply.recovered, due: reply.due, now: now)
        learned(reply.pauses, now: now, into: &effects)
        work.learned(asides: reply.asides)
        liveness.observed(reply.counters, now: now, isGone: isGone)
        return .good
    }

    private mutating func learned(_ new: [QueuePause], now: Instant, into effects: inout [Effect]) {
        liveness.watch(new, now: now)
        if new.contains(where: { $0.app == nil }) { work.withdrawOffers(now: now) }
        report(notices.learned(new), into: &effects)
    }

    private mutating func reaped(
        _ reap: Reap, _ items: [RedisReply], now: Instant, into effects: inout [Effect]
    ) -> ReplyReading {
        switch Reap.Reply(items) {
        case nil: return .unintelligible
        case .lists(let lists): effects.append(.call(.reap(Reap(dead: reap.dead, chunk: reap.chunk, lists: lists))))
        case .alive: outstanding.remove(.reap)
        case .reaped(let moved, let recovered, let suspects):
            outstanding.remove(.reap)
            effects.append(.report(.recovered(worker: reap.dead.worker, jobs: moved + suspects.count)))
            work.reaped(recovered: recovered, suspects: suspects, chunk: reap.chunk, now: now, into: &effects)
        }
        return .good
    }

    private mutating func unregistered(_ reply: RedisReply, into effects: inout [Effect]) -> ReplyReading {
        guard let left = reply.integer else { return .unintelligible }
        if left != 0 {
            leavesJobs = true
            if left < 0 { work.returnAsidesAgain() }
            let reason = left < 0 ? "the side lists are left to this worker" : "a claim on the second connection has brought jobs"
            return .lost("\(reason) during the stop")
        }
        finish(into: &effects)
        return .good
    }

    // MARK: Reconciling

    private mutating func registered(
        _ items: [RedisReply], sentAt: Instant, now: Instant, isGone: (String) -> Bool, into effects: inout [Effect]
    ) -> ReplyReading {
        switch Registration.Reply(items) {
        case nil: return .unintelligible
        case .foreign(let found):
            foreignNumber = found.number
            let finding = reconciliation.finding(found.epoch, settled: found.settled, confirmed: work.jobs.confirmed)
            work.abandon(found, finding, now: now, into: &effects)
            effects.append(.rename)
        case .registered(let reply):
            liveness.beatConfirmed(sentAt: sentAt)
            phase = .reconciling
            let finding = reconciliation.registered(reply, number: number, confirmed: work.jobs.confirmed)
            let (warning, calls) = work.registered(reply, finding, now: now, into: &effects)
            reconciliation.warn(warning)
            work.learned(asides: reply.asides)
            work.reportAsides(into: &effects)
            for call in calls { expect(call, into: &effects) }
            learned(reply.pauses, now: now, into: &effects)
            liveness.observed(reply.counters, now: now, isGone: isGone)
            if reconciliation.isCluster { expect(.nodes, into: &effects) }
            if reconciliation.wantsInfo { expect(.info, into: &effects) }
            serveIfReconciled(now: now, into: &effects)
        }
        return .good
    }

    private mutating func expect(_ call: Call, into effects: inout [Effect]) {
        reconciliation.expectReply()
        effects.append(.call(call))
    }

    /// One of the expected replies has arrived.
    private mutating func reconciled(now: Instant, into effects: inout [Effect]) {
        reconciliation.replied()
        serveIfReconciled(now: now, into: &effects)
    }

    private mutating func serveIfReconciled(now: Instant, into effects: inout [Effect]) {
        if reconciliation.isComplete && phase == .reconciling { startServing(now: now, into: &effects) }
    }
}

/// An action of `QueueMachine` that the shell performs.
enum QueueEffect: Equatable {
    case dial
    case hangUp
    case call(Call)
    /// The blocking command, on the second connection, and the claim behind it.
    case wait(Claim?)
    /// Another node of the cluster has the list.
    case follow(ErrorReply.Node?)
    /// The nodes of the cluster, from CLUSTER SLOTS.
    case learn([RedisReply])
    /// The worker needs a new name. `renamed` follows.
    case rename
    case report(QueueEvent)
}

/// The consequence of a reply for its connection.
enum ReplyReading: Equatable {
    case good
    case unintelligible
    /// The connection cannot be used any more.
    case lost(String)
}

/// Calls that await their reply. Claims count their jobs, and settlements are numbered; they are not here.
struct OutstandingCalls: OptionSet {
    let rawValue: UInt8

    static let beat = OutstandingCalls(rawValue: 1 << 0)
    static let reap = OutstandingCalls(rawValue: 1 << 1)
    static let promotion = OutstandingCalls(rawValue: 1 << 2)
    static let inspection = OutstandingCalls(rawValue: 1 << 3)
    static let wait = OutstandingCalls(rawValue: 1 << 4)
    static let piggybackedClaim = OutstandingCalls(rawValue: 1 << 5)
}

/// The time at which the first job in `delayed` is due, and so the next promotion.
struct DelayedJobs {
    private static let interval = Duration.milliseconds(100)

    private(set) var dueAt: Instant?

    mutating func learned(_ due: Lua.NextDue, now: Instant) {
        switch due {
        case .unknown: break
        case .never: dueAt = nil
        case .after(let delay): dueAt = now + delay
        }
    }

    /// The next promotion comes after the interval, unless more jobs were due than one promotion moves.
    mutating func promoted(_ reply: Promotion.Reply, now: Instant) {
        learned(reply.due, now: now)
        if reply.count < 100, let next = dueAt { dueAt = max(next, now + DelayedJobs.interval) }
    }

    func isDue(now: Instant) -> Bool { dueAt.map { now >= $0 } ?? false }
}
