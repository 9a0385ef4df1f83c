import SystemTime

/// Decides what the queue sends next, and reads the replies. Knows no socket, no clock and no C.
///
/// A worker connects twice to its server: the first connection carries every script, the second one waits for jobs. Once both are
/// open, the worker registers under a connection number higher than any before, so that the calls of its former connections are
/// refused. It then compares what Redis keeps for it with what it holds: unanswered settlements are sent again, jobs that Redis
/// alone knows are fetched, and jobs that only the worker knows are disowned, for another worker has taken them over. After that
/// it serves: it beats, reaps dead workers, promotes delayed jobs, settles, claims and waits, each when it is due. Every failure
/// leads back to `disconnected` with all held jobs and unconfirmed settlements kept. A stop gives the held jobs back, waits for
/// the confirmation of every settlement, and unregisters the worker.
///
///     phase          fact                                  next phase
///     disconnected   the pause is over                     dialing
///     disconnected   stopping, nothing held                stopped
///     dialing        both connections are open             registering
///     registering    a higher number is in use             registering
///     registering    registered                            reconciling
///     reconciling    the last expected reply               serving
///     serving        stopping, all settled and reaped      unregistering
///     unregistering  nothing is left in Redis              stopped
///     unregistering  Redis still has jobs of this worker   reconciling
///     any of these   lost, refused, redirected, fenced     disconnected
///
/// Each turn of the shell reports facts and ends with `advance`. Effects are appended to the shell's array.
struct QueueMachine {
    enum Phase: Equatable { case disconnected, dialing, registering, reconciling, serving, unregistering, stopped }

    enum Effect: Equatable {
        case dial
        case hangUp
        case call(Call)
        /// The blocking command, on the second connection, and the claim behind it.
        case wait(Call?)
        /// Another node of the cluster has the list.
        case follow(ErrorReply.Node?)
        /// The nodes of the cluster, from CLUSTER SLOTS.
        case learn([RedisReply])
        case report(QueueEvent)
    }

    private let mode: QueueSettings.DeliveryMode
    private(set) var phase = Phase.disconnected
    /// The number of the connection, which each call of a registered worker carries.
    private(set) var number: Int64 = 0
    private var outstanding: OutstandingCalls = []
    private(set) var held = JobWindow()
    private(set) var settlements = Settlements()
    private var claims: Claims
    private var liveness: Liveness
    private var delayed = DelayedJobs()
    private var reconciliation = Reconciliation()
    private var reconnection: Reconnection
    private var recordAlarm = RecordAlarm()
    private var missingFeatures: Set<MissingFeature> = []
    private var lastReport: QueueEvent?
    /// The pauses that Redis replied last.
    private var pauses: [QueuePause] = []
    private var isStopping = false
    /// Jobs are fetched that only Redis knows.
    private var isFetching = false

    init(settings: QueueSettings, worker: String, seed: UInt64, now: Instant) {
        mode = settings.mode
        claims = Claims(mode: mode)
        liveness = Liveness(lease: settings.lease, own: worker, mode: mode, now: now)
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
        let registration = Call.Registration(
            counter: liveness.nextCounter(), confirmed: settlements.confirmed, isExpected: reconciliation.isRegistered)
        effects.append(.call(.register(registration)))
    }

    /// There is no connection, or none that serves. State is kept, and the next dial follows after a pause.
    mutating func lost(_ reason: String, now: Instant, into effects: inout [Effect]) {
        if phase == .disconnected || phase == .stopped { return }
        reconnection.failed(now: now)
        disconnect(reporting: .disconnected(reason), into: &effects)
    }

    /// The server refuses what only its operator can allow.
    mutating func refused(_ error: RedisError, now: Instant, into effects: inout [Effect]) {
        reconnection.refused(now: now)
        disconnect(reporting: .refused(error), into: &effects)
    }

    /// Another node of the cluster has the list.
    private mutating func redirected(_ error: ErrorReply, to node: ErrorReply.Node?, now: Instant, into effects: inout [Effect]) {
        reconciliation.redirected()
        effects.append(.follow(node))
        let isEndless = reconnection.redirected(now: now)
        let reason = "the nodes of the cluster do not agree on which of them has the list (\(error))"
        disconnect(reporting: isEndless ? .disconnected(reason) : nil, into: &effects)
    }

    /// Other workers consider this one dead, and may have taken over its jobs.
    private mutating func fenced(now: Instant, into effects: inout [Effect]) {
        if liveness.doubt() { effects.append(.report(.leaseInDoubt)) }
        lost("other workers considered this worker dead; it registers again", now: now, into: &effects)
    }

    /// A state is reported once, not with every attempt.
    private mutating func disconnect(reporting event: QueueEvent?, into effects: inout [Effect]) {
        if phase == .stopped { return }
        if phase != .disconnected { effects.append(.hangUp) }
        phase = .disconnected
        outstanding = []
        settlements.connectionLost()
        claims.connectionLost()
        if isFetching { claims.fetchEnded(isComplete: false) }
        isFetching = false
        liveness.connectionLost()
        reconciliation.connectionLost()
        guard let event, event != lastReport else { return }
        lastReport = event
        effects.append(.report(event))
    }

    private mutating func startServing(now: Instant, into effects: inout [Effect]) {
        phase = .serving
        if isFetching { claims.fetchEnded(isComplete: true) }
        isFetching = false
        liveness.beginServing(now: now)
        if !pauses.isEmpty { liveness.beat(by: now + QueueMachine.pauseInterval) }
        reconnection.succeeded()
        claims.restartOffer(now: now)
        lastReport = nil
        let (warnings, lengths) = reconciliation.finish()
        effects.append(.report(.connected(warnings: warnings)))
        for records in RecordList.allCases { noticed(records, count: lengths[records] ?? 0, into: &effects) }
    }

    private mutating func finish(into effects: inout [Effect]) {
        phase = .stopped
        effects += [.hangUp, .report(.stopped)]
    }

    // MARK: The owner

    mutating func offer(places: Int, now: Instant) { claims.offer(places: places, now: now) }

    mutating func acknowledge(_ id: ClaimID, now: Instant) {
        if held.level(of: id) > 0 { return settle(Settlement(id: id, effect: .ack), now: now) }
        claims.ownerResponded()
        settlements.addAcknowledgement(id, now: now)
    }

    mutating func settle(_ settlement: Settlement, now: Instant) {
        claims.ownerResponded()
        let job = mode == .atMostOnce ? held.bytes(of: settlement.id) : nil
        settlements.add(settlement, field: held.field(of: settlement.id), job: job, now: now)
    }

    /// Settlements that gather are sent with the next turn.
    mutating func flush() { settlements.flush() }

    mutating func stop() { isStopping = true }

    /// Whether this list may hold jobs that could be claimed if there were places; a list of lower priority waits for it.
    mutating func wantsPlaces(at now: Instant) -> Bool {
        switch phase {
        case .dialing, .registering, .reconciling: true
        case .serving: claims.wantsPlaces(at: now, situation)
        case .disconnected, .unregistering, .stopped: false
        }
    }

    /// `mutating`, because Swift 6.3 copies the whole machine for a getter that is not.
    private var situation: Claims.Situation {
        mutating get {
            Claims.Situation(
                heldCount: held.count, heldBytes: held.byteCount, holdsIsolated: held.holdsIsolated,
                heldTwiceCrashed: held.countOfLevel(2), isSplitting: settlements.isSplitting, isInDoubt: liveness.isInDoubt,
                confirmed: settlements.confirmed, outstanding: outstanding)
        }
    }

    // MARK: Time

    /// Does everything that is due. Each turn ends with it.
    mutating func advance(now: Instant, into effects: inout [Effect]) {
        if phase != .stopped, liveness.doubtIfDue(now: now) { effects.append(.report(.leaseInDoubt)) }
        switch phase {
        case .disconnected:
            if isStopping && held.isEmpty && settlements.isEmpty {
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
                let situation = situation
                next.consider(liveness.deadline(outstanding))
                if !outstanding.contains(.promotion) { next.consider(delayed.dueAt) }
                next.consider(settlements.sealsAt(includingHeads: !claims.isClaiming(situation), heldCount: held.count))
                next.consider(claims.deadline(situation))
            case .dialing, .registering, .reconciling, .unregistering, .stopped: break
            }
            return next.instant
        }
    }

    private mutating func serve(now: Instant, into effects: inout [Effect]) {
        // Also while the reply to an earlier beat waits behind a large reply: the beat itself arrives in time.
        if let counter = liveness.nextBeat(now: now) {
            call(.beat(counter: counter), .beat, into: &effects)
        }
        if outstanding.isDisjoint(with: [.beat, .inspection]), liveness.isInspectionDue(now: now) {
            call(claims.inspection(situation), .inspection, into: &effects)
        }
        if !outstanding.contains(.reap), let dead = liveness.takeDead() {
            call(.reap(dead, first: claims.ids.reserve(Claims.mostSuspects)), .reap, into: &effects)
        }
        if isStopping { return leave(now: now, into: &effects) }
        if !outstanding.contains(.promotion), delayed.isDue(now: now) { call(.promote, .promotion, into: &effects) }
        settleIfDue(now: now, into: &effects)
        if let claim = claims.nextClaim(now: now, situation) { effects.append(.call(claim)) }
        let (begins, claim) = claims.nextWait(situation)
        if begins {
            outstanding.insert(claim == nil ? .wait : [.wait, .piggybackedClaim])
            effects.append(.wait(claim))
        }
    }

    private mutating func call(_ call: Call, _ kind: OutstandingCalls, into effects: inout [Effect]) {
        outstanding.insert(kind)
        effects.append(.call(call))
    }

    private mutating func settleIfDue(now: Instant, into effects: inout [Effect]) {
        // Jobs return to the head of the list together with those of an outstanding claim, which were behind them.
        let isClaiming = claims.isClaiming(situation)
        if let due = settlements.sealsAt(includingHeads: !isClaiming, heldCount: held.count), now >= due {
            settlements.seal(includingHeads: !isClaiming && !claims.isFresh)
        }
        settlements.flushed()
        sendSettlements(into: &effects)
    }

    private mutating func sendSettlements(into effects: inout [Effect]) {
        for batch in settlements.takeUnsent() { effects.append(.call(.settle(batch))) }
    }

    /// Gives back the held jobs, waits for every confirmation, reaps the known dead workers, and then unregisters: this may be
    /// the last worker for a long time. The owner settles suspects.
    private mutating func leave(now: Instant, into effects: inout [Effect]) {
        let isClaiming = claims.isClaiming(situation)
        let isPopping = outstanding.contains(.wait) && mode == .atMostOnce
        if !isClaiming && !isPopping && !held.isEmpty {
            let settling = settlements.settlingIDs
            if settling.count < held.count {
                for id in held.ids where !settling.contains(id) && held.level(of: id) < JobWindow.suspect {
                    settle(Settlement(id: id, effect: .release(toTail: false)), now: now)
                }
            }
        }
        settlements.seal(includingHeads: !isClaiming)
        sendSettlements(into: &effects)
        let isReaping = outstanding.contains(.reap) || liveness.isReaping
        if held.isEmpty && settlements.isEmpty && !isClaiming && !isPopping && !isReaping {
            phase = .unregistering
            effects.append(.call(.unregister))
        }
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
        // The outstanding `unregister` counts a job that this claim may have brought. The job is then fetched and given back.
        if case .piggybackedClaim = call, phase == .unregistering {
            outstanding.remove(.piggybackedClaim)
            return claims.piggybackDiscarded()
        }
        if case .error(let error) = reply { return failed(call, error, now: now, into: &effects) }
        switch call.isFenced ? reply.text : nil {
        case "FENCED": return fenced(now: now, into: &effects)
        case "STALE": return lost("another connection took over this worker's number", now: now, into: &effects)
        case "GAP": return effects.append(.call(call))  // Its predecessor met NOSCRIPT, and has been sent again.
        default: break
        }
        let isUnderstood = understand(reply, to: call, sentAt: sentAt, now: now, isGone: isGone, into: &effects)
        if !isUnderstood { lost("an unintelligible reply", now: now, into: &effects) }
    }

    private mutating func understand(
        _ reply: RedisReply, to call: Call, sentAt: Instant, now: Instant, isGone: (String) -> Bool,
        into effects: inout [Effect]
    ) -> Bool {
        let items = reply.items ?? []
        switch call {
        case .register: return registered(items, sentAt: sentAt, now: now, isGone: isGone, into: &effects)
        case .claim(let first, let count, _, _):
            return claimed(items, first, asked: count, within: now - sentAt, now: now, into: &effects)
        case .piggybackedClaim(let first, let count, _, _, _):
            return claimed(items, first, asked: count, within: nil, now: now, into: &effects)
        case .pop(let count): return popped(reply, asked: count, now: now, into: &effects)
        case .settle(let batch): return settled(batch, items, now: now, into: &effects)
        case .beat: return beatConfirmed(items, sentAt: sentAt, now: now, isGone: isGone, into: &effects)
        case .promote:
            guard let promoted = ScriptReply.Promoted(items) else { return false }
            outstanding.remove(.promotion)
            delayed.promoted(promoted, now: now)
        case .reap(let dead, let first): return reaped(dead, items, first, now: now, into: &effects)
        case .fields: compared(items, now: now, into: &effects)
        case .fetch(let fields): fetched(items, fields, now: now, into: &effects)
        case .info:
            if reconciliation.informed(ServerInfo(reply.text ?? "")) { expect(.nodes, into: &effects) }
            reconciled(now: now, into: &effects)
        case .nodes:
            effects.append(.learn(items))
            reconciled(now: now, into: &effects)
        case .unregister: return unregistered(reply, into: &effects)
        case .wait: waited(reply, now: now, into: &effects)
        case .inspect:
            guard let length = reply.integer else { return false }
            outstanding.remove(.inspection)
            claims.inspected(length: length)
        case .countHeld: return counted(reply, now: now, into: &effects)
        case .adopt, .merge, .greeting: break
        }
        return true
    }

    private mutating func failed(_ call: Call, _ error: ErrorReply, now: Instant, into effects: inout [Effect]) {
        if case .moved(let node) = error.kind { return redirected(error, to: node, now: now, into: &effects) }
        switch call {
        case .wait where error.kind != .passwordMissing:
            outstanding.remove(.wait)
            if let feature = claims.waitFailed(error, now: now) { report(missing: feature, into: &effects) }
        case .info, .nodes:
            // A user without the right to ask gets no warnings, and loses nothing.
            reconciled(now: now, into: &effects)
        case .pop where !claims.popsOne && error.kind == .wrongArgumentCount:
            claims.popCountRefused(now: now)
            report(missing: .popCount, into: &effects)
        default:
            if error.isRefusal {
                refused(.reply(error), now: now, into: &effects)
            } else {
                lost(error.description, now: now, into: &effects)
            }
        }
    }

    /// A substitute is in use: reported once, not at every reconnect.
    private mutating func report(missing feature: MissingFeature, into effects: inout [Effect]) {
        if missingFeatures.insert(feature).inserted { effects.append(.report(.limited(feature))) }
    }

    // MARK: Jobs

    /// - Parameter time: since the claim was sent; `nil` for a piggybacked claim, which waits for a job.
    private mutating func claimed(
        _ items: [RedisReply], _ first: ClaimID, asked: Int, within time: Duration?, now: Instant, into effects: inout [Effect]
    ) -> Bool {
        let isPiggybacked = time == nil
        guard let reply = ScriptReply.Claim(items) else { return false }
        if isPiggybacked { outstanding.remove(.piggybackedClaim) }
        let jobs = hold(reply.jobs.lazy.map(\.job), from: first) { reply.jobs[$0].level }
        claims.ids.free(from: first, reserved: asked, used: jobs.count)
        claims.claimed(
            jobs.count, reply.recovered, isDrained: reply.isDrained, isPiggybacked: isPiggybacked, now: now)
        if let time { claims.measured(jobs.reduce(0) { $0 + $1.bytes.count }, within: time) }
        learned(reply.pauses, now: now, into: &effects)
        report(claimed: jobs, into: &effects)
        return true
    }

    private mutating func popped(_ reply: RedisReply, asked: Int, now: Instant, into effects: inout [Effect]) -> Bool {
        let bytes: [RedisReply]
        switch reply {
        case .null: bytes = []
        case .string: bytes = [reply]
        case .array(let items): bytes = items
        default: return false
        }
        let jobs = hold(bytes.compactMap(ScriptReply.JobBytes.init), from: claims.ids.reserve(bytes.count)) { _ in 0 }
        claims.popped(jobs.count, isDrained: jobs.count < asked, now: now)
        report(claimed: jobs, into: &effects)
        return true
    }

    private mutating func hold(
        _ jobs: some Sequence<ScriptReply.JobBytes>, from first: ClaimID, level: (Int) -> UInt8
    ) -> [ClaimedJob] {
        jobs.enumerated().map { index, job in
            let claim = ClaimedJob(id: first.advanced(by: index), bytes: job.bytes, fullSize: job.fullSize)
            held.insert(claim, level: level(index))
            return claim
        }
    }

    /// A stopping worker gives them back instead.
    private func report(claimed jobs: [ClaimedJob], into effects: inout [Effect]) {
        if !jobs.isEmpty && !isStopping { effects.append(.report(.claimed(jobs))) }
    }

    private mutating func settled(_ batch: SettleBatch, _ items: [RedisReply], now: Instant, into effects: inout [Effect]) -> Bool
    {
        guard let reply = ScriptReply.Settled(items) else { return false }
        for id in settlements.confirm(batch.sequence) { held.remove(id) }
        grew(.deadLetters, reply.deadLetters, into: &effects)
        grew(.feedback, reply.feedback, into: &effects)
        delayed.learned(reply.due, now: now)
        return true
    }

    private mutating func grew(_ records: RecordList, _ growth: ScriptReply.Growth, into effects: inout [Effect]) {
        if growth.trimmed > 0 { effects.append(.report(.recordsTrimmed(records, growth.trimmed))) }
        noticed(records, count: growth.length, into: &effects)
    }

    private mutating func noticed(_ records: RecordList, count: Int, into effects: inout [Effect]) {
        if recordAlarm.isWorthReporting(records, count: count) { effects.append(.report(.recordsMany(records, count))) }
    }

    private mutating func waited(_ reply: RedisReply, now: Instant, into effects: inout [Effect]) {
        outstanding.remove(.wait)
        var jobs: [ClaimedJob] = []
        if mode == .atMostOnce, let job = reply.items?.last.flatMap(ScriptReply.JobBytes.init) {
            jobs = hold([job], from: claims.ids.reserve(1)) { _ in 0 }
        }
        claims.waited(didFindJob: reply != .null, takenJobs: jobs.count, now: now)
        report(claimed: jobs, into: &effects)
    }

    private mutating func counted(_ reply: RedisReply, now: Instant, into effects: inout [Effect]) -> Bool {
        guard let count = reply.integer else { return false }
        outstanding.remove(.inspection)
        switch claims.counted(count, situation) {
        case .complete: break
        case .missing: liveness.inspect(after: PiggybackedClaim.patience, now: now)
        case .lost: lost("claimed jobs did not arrive: the second connection is dead", now: now, into: &effects)
        }
        return true
    }

    // MARK: Workers

    private mutating func beatConfirmed(
        _ items: [RedisReply], sentAt: Instant, now: Instant, isGone: (String) -> Bool, into effects: inout [Effect]
    ) -> Bool {
        guard let reply = ScriptReply.Beat(items) else { return false }
        outstanding.remove(.beat)
        liveness.beatConfirmed(sentAt: sentAt)
        if liveness.isRestored(at: now) { startServing(now: now, into: &effects) }
        claims.learned(reply.recovered, now: now)
        delayed.learned(reply.due, now: now)
        learned(reply.pauses, now: now, into: &effects)
        liveness.observed(reply.counters, now: now, isGone: isGone)
        return true
    }

    /// The longest time between two looks at the pauses while there is one: a resumed list is claimed from soon.
    private static let pauseInterval = Duration.seconds(1)

    private mutating func learned(_ new: [QueuePause], now: Instant, into effects: inout [Effect]) {
        if new.isEmpty && pauses.isEmpty { return }
        if !new.isEmpty {
            liveness.beat(by: now + min(QueueMachine.pauseInterval, new.compactMap(\.left).min() ?? QueueMachine.pauseInterval))
        }
        if new.contains(where: { $0.app == nil }) { claims.offer(places: 0, now: now) }
        let isKnown = new.elementsEqual(pauses) { $0.isSame(as: $1) }
        pauses = new
        if !isKnown { effects.append(.report(.paused(new))) }
    }

    private mutating func reaped(
        _ dead: LeaseMachine.Dead, _ items: [RedisReply], _ first: ClaimID, now: Instant, into effects: inout [Effect]
    ) -> Bool {
        guard let reply = ScriptReply.Reaped(items) else { return false }
        outstanding.remove(.reap)
        claims.ids.free(from: first, reserved: Claims.mostSuspects, used: reply.suspects.count)
        guard let moved = reply.moved else { return true }
        claims.learned(reply.recovered, now: now)
        effects.append(.report(.recovered(worker: dead.worker, jobs: moved + reply.suspects.count)))
        let suspects = hold(reply.suspects, from: first) { _ in JobWindow.suspect }
        if !suspects.isEmpty { effects.append(.report(.suspects(suspects))) }
        return true
    }

    private mutating func unregistered(_ reply: RedisReply, into effects: inout [Effect]) -> Bool {
        guard let left = reply.integer else { return false }
        if left == 0 {
            finish(into: &effects)
        } else {
            // Redis has jobs of this worker that it does not know: they are fetched and given back.
            phase = .reconciling
            expect(.fields, into: &effects)
        }
        return true
    }

    // MARK: Reconciling

    private mutating func registered(
        _ items: [RedisReply], sentAt: Instant, now: Instant, isGone: (String) -> Bool, into effects: inout [Effect]
    ) -> Bool {
        switch ScriptReply.Registration(items) {
        case nil: return false
        case .numberTaken(let taken):
            number = max(number, taken)
            connected(into: &effects)
        case .registered(let reply):
            liveness.beatConfirmed(sentAt: sentAt)
            phase = .reconciling
            switch reconciliation.registered(reply, confirmed: settlements.confirmed) {
            case .unchanged: break
            case .emptied: adoptHeldJobs(into: &effects)
            case .rolledBack(let stored):
                settlements.addMaybeDuplicates(settlements.forgotten(after: stored), now: now)
                reconciliation.warn("Redis was put back to an earlier state: the jobs that it has again are pushed again")
            }
            claims.learned(reply.recovered, now: now)
            delayed.learned(reply.due, now: now)
            learned(reply.pauses, now: now, into: &effects)
            liveness.observed(reply.counters, now: now, isGone: isGone)
            sendSettlements(into: &effects)
            if reconciliation.isCluster { expect(.nodes, into: &effects) }
            if reconciliation.wantsInfo { expect(.info, into: &effects) }
            if mode == .atLeastOnce { expect(.fields, into: &effects) }
            serveIfReconciled(now: now, into: &effects)
        }
        return true
    }

    /// Puts the held jobs back into Redis, which has lost them.
    private mutating func adoptHeldJobs(into effects: inout [Effect]) {
        if mode == .atMostOnce { return reconciliation.warn("Redis was emptied") }
        reconciliation.warn("Redis was emptied: \(held.count) jobs that this worker holds were put back")
        var chunk: [Call.Adopted] = []
        var bytes = 0
        // Of a job that is too large there is only the beginning. It is disowned when the fields are compared.
        for id in held.ids where !held.isAbridged(id) {
            let job = held.bytes(of: id) ?? []
            chunk.append(.init(field: held.field(of: id), job: job))
            bytes += job.count
            if chunk.count == Claims.mostJobs || bytes > SettleBatch.mostBytes {
                effects.append(.call(.adopt(chunk)))
                (chunk, bytes) = ([], 0)
            }
        }
        if !chunk.isEmpty { effects.append(.call(.adopt(chunk))) }
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

    /// Compares the fields of the in-flight hash with the held jobs.
    private mutating func compared(_ items: [RedisReply], now: Instant, into effects: inout [Effect]) {
        var known: Set<ClaimID> = []
        var unknown: [(id: ClaimID, field: String)] = []
        for field in items.compactMap(\.text) {
            // A field that was never reserved was not written by this worker.
            guard let (id, _) = JobWindow.parse(field: field), id < claims.ids.next else { continue }
            if held.contains(id) { known.insert(id) } else { unknown.append((id, field)) }
        }
        claims.foundForeignFields(items.count - known.count - unknown.count)
        disown(allBut: known, into: &effects)
        let fields = unknown.sorted { $0.id < $1.id }.map(\.field)
        let most = claims.jobsOfFetch
        for start in stride(from: 0, to: fields.count, by: most) {
            expect(.fetch(Array(fields[start..<min(start + most, fields.count)])), into: &effects)
        }
        isFetching = !fields.isEmpty
        reconciled(now: now, into: &effects)
    }

    private mutating func disown(allBut known: Set<ClaimID>, into effects: inout [Effect]) {
        if known.count == held.count { return }
        let settling = settlements.settlingIDs
        let gone = held.ids.filter { !known.contains($0) && !settling.contains($0) }
        if gone.isEmpty { return }
        for id in gone { held.remove(id) }
        effects.append(.report(.disowned(gone)))
    }

    private mutating func fetched(_ items: [RedisReply], _ fields: [String], now: Instant, into effects: inout [Effect]) {
        var jobs: [ClaimedJob] = []
        var suspects: [ClaimedJob] = []
        for (field, item) in zip(fields, items) {
            guard let job = ScriptReply.JobBytes(item), let (id, level) = JobWindow.parse(field: field) else { continue }
            let claim = ClaimedJob(id: id, bytes: job.bytes, fullSize: job.fullSize)
            held.insert(claim, level: level)
            if level >= JobWindow.suspect { suspects.append(claim) } else { jobs.append(claim) }
        }
        claims.fill(jobs.count)
        report(claimed: jobs, into: &effects)
        if !suspects.isEmpty { effects.append(.report(.suspects(suspects))) }
        reconciled(now: now, into: &effects)
    }
}
