import Platform

/// Decides what the queue sends next, and reads the replies. Knows no socket, no clock and no C.
///
/// A worker connects twice to its server: the first connection carries every script, the second one waits for jobs. Once both are
/// open, the worker registers under a connection number higher than any before, so that the calls of its former connections are
/// refused. It then compares what Redis keeps for it with what it holds: settlements that were not applied are sent again, jobs
/// that only Redis knows are fetched, and jobs that only the worker knows are disowned, because another worker has them now.
/// After that it serves: it beats, reaps dead workers, promotes delayed jobs, settles, claims and waits, each when it is due.
/// Every failure leads back to `disconnected` with all held jobs and unconfirmed settlements kept. A stop gives the held jobs
/// back, waits for the confirmation of every settlement, and unregisters the worker. `transitions` is the table.
///
/// Its parts do not know each other: the machine gives each of them the facts that it needs.
///
/// Each turn of the shell reports facts and ends with `advance`. Effects are appended to the shell's array.
struct QueueMachine {
    enum Phase: CaseIterable { case disconnected, dialing, registering, reconciling, serving, unregistering, stopped }

    /// An action that the shell performs.
    enum Effect: Equatable {
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
    private enum Reading {
        case good
        case unintelligible
        /// The connection cannot be used any more.
        case lost(String)
    }

    /// The next phases of each, and the facts that lead there. Tests compare the machine with it.
    static let transitions: [Phase: [Phase: String]] = {
        let lost = "the connection is lost, refused, redirected or fenced"
        return [
            .disconnected: [.dialing: "the pause is over", .stopped: "stopping, and nothing is held"],
            .dialing: [.registering: "both connections are open", .disconnected: lost],
            // Under a new name it stays here: another process has the record.
            .registering: [.reconciling: "registered", .disconnected: lost],
            .reconciling: [.serving: "the last expected reply", .disconnected: lost],
            .serving: [.unregistering: "stopping, and all is settled and taken over", .disconnected: lost],
            .unregistering: [
                .stopped: "nothing is left in Redis", .disconnected: "Redis still has jobs of this worker, or \(lost)",
                .serving: "a beat that was sent before ends the doubt",
            ],
            .stopped: [:],
        ]
    }()

    private(set) var phase = Phase.disconnected
    /// The number of the connection, which each call of a registered worker carries.
    private(set) var number: Int64 = 0
    private(set) var holdings: Holdings
    private var claims: Claims
    private var lease: Lease
    private var reconciliation: Reconciliation
    private var delayed = DelayedJobs()
    private var reconnection: Reconnection
    private var notices = Notices()
    /// `nil` for a queue that keeps its jobs in Redis.
    private var pop: PopQueue?
    /// The rank before the next popped job: these ranks hold only in this process. `nil`: they have none.
    private var poppedRank: UInt64?
    private var isStopping = false
    /// Whether a claim, or where nothing is claimed a wait or beat, has worked since the registration.
    private var hasWorked = false
    /// The number of the last record that could not be continued.
    private var foreignNumber = ""
    /// At the end of a stop Redis had jobs of this worker, or side lists and no other worker, or a record with another number.
    /// The next connection gives the jobs back, and removes the record.
    private var leavesRecord = false
    /// The last batch whose figures of campaigns were taken.
    private var counted: UInt64 = 0
    private let byAddress = ByAddress()

    /// - Parameter firstRank: of a popped job: above those of former processes.
    init(settings: QueueSettings, worker: String, seed: UInt64, firstRank: UInt64? = nil, now: Instant) {
        pop = PopQueue(settings.mode)
        poppedRank = firstRank
        holdings = Holdings(keepsJobs: pop == nil)
        claims = Claims(isolates: pop == nil)
        lease = Lease(lease: settings.lease, own: worker, isGuarded: pop == nil, now: now)
        reconnection = Reconnection(seed: seed, now: now)
        reconciliation = Reconciliation(wantsApps: settings.readsApps)
    }

    /// When the last confirmed beat was sent.
    var lastContact: Instant? { lease.lastContact }

    /// The time from which no held job may be sent unless a later beat is confirmed.
    var sendingDeadline: Instant? { mutating get { phase == .stopped ? nil : lease.doubtDeadline } }

    // MARK: Connection

    /// Both connections are open, and the server has accepted the user.
    mutating func connected(into effects: inout [Effect]) {
        number += 1
        phase = .registering
        hasWorked = false
        let registration = Registration(
            counter: lease.nextCounter(), confirmed: holdings.confirmed, isExpected: reconciliation.isRegistered,
            sealed: holdings.lastSealed, answered: reconciliation.answered)
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
        if lease.doubt() { effects.append(.report(.registrationLost)) }
        lost("this worker is not registered any more; it registers again", now: now, into: &effects)
    }

    /// The worker has a new name, after the effect `rename`. It registers at once.
    mutating func renamed(to worker: String, into effects: inout [Effect]) {
        lease.renamed(to: worker)
        reconciliation.renamed()
        effects.append(.report(.renamed(worker: worker, number: foreignNumber)))
        connected(into: &effects)
    }

    private mutating func disconnect(reporting event: QueueEvent?, isError: Bool = false, into effects: inout [Effect]) {
        if phase == .stopped { return }
        if phase != .disconnected { effects.append(.hangUp) }
        phase = .disconnected
        delayed.isPromoting = false
        holdings.connectionLost()
        claims.connectionLost()
        lease.connectionLost()
        reconciliation.connectionLost()
        report(event.flatMap { notices.disconnected($0, isRefused: isError) }, into: &effects)
    }

    private mutating func startServing(now: Instant, into effects: inout [Effect]) {
        phase = .serving
        leavesRecord = false
        claims.beginServing(holding: holdings.chunks, now: now)
        lease.beginServing(now: now)
        lease.watch(notices.pauses, now: now)
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

    /// A stopping worker gives the claimed jobs back instead.
    private func report(claimed jobs: [ClaimedJob], suspects: [ClaimedJob] = [], into effects: inout [Effect]) {
        if !jobs.isEmpty && !isStopping { effects.append(.report(.claimed(jobs))) }
        if !suspects.isEmpty { effects.append(.report(.suspects(suspects))) }
    }

    private func report(_ disowned: [ClaimID], _ loss: QueueEvent.Loss, into effects: inout [Effect]) {
        if !disowned.isEmpty { effects.append(.report(.disowned(disowned, loss))) }
    }

    private mutating func finish(into effects: inout [Effect]) {
        phase = .stopped
        effects += [.hangUp, .report(.stopped)]
    }

    // MARK: The owner

    mutating func offer(places: Int, now: Instant) { claims.offer(places: places, now: now) }

    /// Places of one app, whose side list has jobs.
    mutating func offer(places: Int, aside app: String, now: Instant) {
        claims.sides.offer(places: places, app: app, now: now)
    }

    /// Places of one app, which has slots.
    mutating func offer(places: Int, slots app: String) { claims.slots.offer(places: places, app: app) }

    mutating func restore(_ app: String) { claims.sides.restore(app) }

    mutating func reportAsides(into effects: inout [Effect]) {
        if let apps = claims.sides.change() { effects.append(.report(.aside(apps))) }
        if let apps = claims.slots.change() { effects.append(.report(.slots(apps))) }
    }

    /// Places for tokens of one campaign, which is active.
    mutating func offer(places: Int, campaign id: String, now: Instant) {
        claims.campaigns.offer(places: places, id: id, now: now)
    }

    mutating func restingCampaigns(now: Instant) -> Set<String> { claims.campaigns.resting(now: now) }

    mutating func launch(_ claim: ClaimedJob, _ order: CampaignOrder, isReachable: Bool, into effects: inout [Effect]) {
        // In a cluster, a script may only use keys of one slot.
        if reconciliation.isCluster && !isReachable {
            return effects.append(.report(.launched(claim, .refused(.otherSlot))))
        }
        claims.campaigns.launch(CampaignLaunch(claim: claim, order: order))
        // The next turn may be a heartbeat away.
        if phase == .serving && !isStopping { sendLaunch(into: &effects) }
    }

    private mutating func sendLaunch(into effects: inout [Effect]) {
        if claims.campaigns.mayLaunch, let launch = claims.campaigns.startsLaunch(holding: holdings.chunks) {
            effects.append(.call(.launch(launch)))
        }
    }

    mutating func describe(campaign id: String, into effects: inout [Effect]) {
        if phase == .serving, claims.campaigns.ask(id) { effects.append(.call(.describe(campaign: id))) }
    }

    mutating func acknowledge(_ id: ClaimID, ofCampaign campaign: String? = nil, now: Instant) {
        claims.ownerResponded()
        holdings.acknowledge(id, ofCampaign: campaign, now: now)
    }

    mutating func settle(_ settlement: Settlement, now: Instant) {
        claims.ownerResponded()
        if let app = settlement.aside { claims.sides.setAside(app) }
        holdings.settle(settlement, now: now)
    }

    mutating func countMaybeDuplicate(now: Instant) { holdings.countMaybeDuplicates(now: now) }

    mutating func count(_ outcome: CampaignOutcome, now: Instant) { holdings.count(outcome, now: now) }

    mutating func stop() {
        isStopping = true
        claims.campaigns.withdrawLaunches()
    }

    /// Whether this list may hold jobs that could be claimed if there were places; a list of lower priority waits for it.
    mutating func wantsPlaces(at now: Instant) -> Bool {
        switch phase {
        case .dialing, .registering, .reconciling: reconnection.isFirstDial
        case .serving: claims.wantsPlaces(at: now, holding: holdings.chunks.count, obstacles())
        case .disconnected, .unregistering, .stopped: false
        }
    }

    /// `mutating`, because Swift 6.3 copies the whole value for a function that is not.
    private mutating func obstacles() -> Claims.Obstacles {
        var obstacles: Claims.Obstacles = []
        if lease.isInDoubt { obstacles.insert(.doubt) }
        if holdings.chunks.byteCount > Claims.mostHeldBytes { obstacles.insert(.full) }
        if holdings.chunks.holdsIsolated { obstacles.insert(.isolation) }
        if holdings.isSplitting { obstacles.insert(.split) }
        return obstacles
    }

    // MARK: Time

    /// Does everything that is due. Each turn ends with it.
    mutating func advance(now: Instant, into effects: inout [Effect]) {
        if phase != .stopped, lease.doubtIfDue(now: now) { effects.append(.report(.leaseInDoubt)) }
        switch phase {
        case .disconnected:
            if isStopping && holdings.isEmpty && !leavesRecord {
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
            if phase != .stopped { next.consider(lease.doubtDeadline) }
            switch phase {
            case .disconnected: next.consider(reconnection.dialsAt)
            case .serving:
                next.consider(lease.deadline)
                if !isStopping {
                    next.consider(claims.deadline(holding: holdings.chunks.count, obstacles()))
                    next.consider(delayed.promotesAt)
                }
                next.consider(
                    holdings.sealsAt(
                        includingHeads: !claims.isClaiming, includingAsideHeads: claims.sides.outstanding == nil))
            case .dialing, .registering, .reconciling, .unregistering, .stopped: break
            }
            return next.instant
        }
    }

    private mutating func serve(now: Instant, into effects: inout [Effect]) {
        if let counter = lease.nextBeat(now: now) {
            let beat = Beat(counter: counter, settled: holdings.confirmed, chunk: holdings.chunks.newestChunk)
            effects.append(.call(.beat(beat)))
            claims.campaigns.beat(now: now)
        }
        if lease.startsInspection(now: now) { effects.append(.call(.inspect(chunk: claims.piggyback.chunk))) }
        if let dead = lease.nextDead() { effects.append(.call(.takeOver(Takeover(dead: dead, chunk: claims.reserve())))) }
        reportAsides(into: &effects)
        if isStopping { return leave(now: now, into: &effects) }
        if delayed.startsPromotion(now: now) { effects.append(.call(.promote)) }
        settleIfDue(now: now, into: &effects)
        claimIfDue(now: now, into: &effects)
        if claims.campaigns.startsLook(now: now) { effects.append(.call(.campaigns)) }
        sendLaunch(into: &effects)
        report(claims.campaigns.change(), into: &effects)
    }

    private mutating func settleIfDue(now: Instant, into effects: inout [Effect]) {
        // Jobs return to the head of the list together with those of an outstanding claim, which were behind them.
        let (isClaiming, isClaimingAside) = (claims.isClaiming, claims.sides.outstanding != nil)
        if let due = holdings.sealsAt(includingHeads: !isClaiming, includingAsideHeads: !isClaimingAside), now >= due {
            holdings.seal(
                includingHeads: !isClaiming && !claims.isFresh,
                includingAsideHeads: !isClaimingAside && !claims.sides.isFresh)
        }
        sendSettlements(into: &effects)
    }

    /// Sends the sealed settlements that this connection has not sent.
    private mutating func sendSettlements(into effects: inout [Effect]) {
        var last = holdings.confirmed
        let launched = claims.campaigns.hasBegun ? claims.campaigns.lastBegun(holding: holdings.chunks) : 0
        while let batch = holdings.nextUnsent(behind: launched) {
            last = batch.sequence
            if !batch.campaigns.isEmpty && batch.sequence > counted {
                counted = batch.sequence
                claims.campaigns.settled(batch.sequence, batch.campaigns)
            }
            effects.append(.call(.settle(batch)))
        }
        for figures in claims.campaigns.takeUnsentFigures(through: last) { effects.append(.call(.figures(figures))) }
    }

    private mutating func claimIfDue(now: Instant, into effects: inout [Effect]) {
        let (count, obstacles) = (holdings.chunks.count, obstacles())
        let second = max(0, Claims.mostTwiceCrashed - holdings.chunks.countOfLevel(2))
        if let places = claims.takeDue(now: now, holding: count, obstacles) {
            effects.append(.call(pop?.call(places, &claims, now: now) ?? .claim(claims.claim(places, second: second))))
        }
        if let (app, places) = claims.takeDueAside(now: now, holding: count, obstacles) {
            effects.append(.call(pop?.call(places, aside: app) ?? .claim(claims.claim(places, from: .aside(app)))))
        }
        if let (app, places) = claims.takeDueSlots(now: now, holding: count, obstacles) {
            effects.append(.call(.claim(claims.claim(places, from: .slots(app, others: lease.others)))))
        }
        if let (id, created, places) = claims.takeDueCampaign(now: now, holding: count, obstacles) {
            effects.append(.call(.claim(claims.claim(places, from: .campaign(id, created: created)))))
        }
        if let app = claims.sides.nextReturn() { effects.append(.call(.restore(Restore(app: app, isStop: false)))) }
        if claims.startsWait(obstacles) {
            let confirmed = holdings.confirmed
            effects.append(.wait(pop == nil ? claims.claimBehindWait(second: second, confirmed: confirmed, obstacles) : nil))
        }
    }

    /// Gives back the held jobs, and unregisters once every settlement is confirmed. The owner settles suspects.
    private mutating func leave(now: Instant, into effects: inout [Effect]) {
        let asides = [claims.sides.outstanding, claims.slots.outstanding, claims.campaigns.outstanding]
        let isClaiming = claims.isClaiming || asides.contains { $0 != nil }
        // The wait itself may bring a job.
        let isPopping = pop != nil && claims.isWaiting
        if !isClaiming && !isPopping { holdings.releaseAll(now: now) }
        holdings.seal(includingHeads: !isClaiming, includingAsideHeads: !isClaiming)
        sendSettlements(into: &effects)
        guard holdings.isEmpty && !isClaiming && !isPopping else { return }
        claims.sides.returnAll()
        if let app = claims.sides.nextReturn() { effects.append(.call(.restore(Restore(app: app, isStop: true)))) }
        if claims.slots.startsReturn() { effects.append(.call(.returnSlots)) }
        // The jobs of the known dead workers are taken over before: this may be the last worker for a long time.
        if !claims.sides.isReturning && !claims.slots.isReturning && !lease.hasDead {
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
        if !call.isOnSecond { lease.replied(now: now) }
        // The outstanding `unregister` counts a chunk that this claim may have brought.
        if phase == .unregistering && call.isOnSecond && call != .wait { return }
        if case .error(let error) = reply { return failed(call, error, now: now, into: &effects) }
        switch call.isFenced ? reply.text.flatMap(Lua.Status.init) : nil {
        case .fenced: return fenced(now: now, into: &effects)
        case .stale:
            // At the end of a stop, its own late registration: the next connection removes that record.
            if phase == .unregistering { leavesRecord = true }
            return lost("another connection took over this worker's number", now: now, into: &effects)
        case .taken:
            return lost("Redis already has a chunk with the number of this claim", now: now, into: &effects)
        case .gap: return foundGap(before: call, now: now, into: &effects)
        case nil: break
        }
        let mayWork = phase == .serving && shows(call)
        switch understand(reply, to: call, sentAt: sentAt, now: now, isGone: isGone, into: &effects) {
        case .good: if mayWork { worked(into: &effects) }
        case .unintelligible: lost("a reply of an unexpected form", now: now, into: &effects)
        case .lost(let reason): lost(reason, now: now, into: &effects)
        }
    }

    /// Whether a good reply to this call shows that claims work, or that they need not.
    private func shows(_ call: Call) -> Bool {
        switch call {
        case .claim, .pop(.jobs): true
        // A wait with a claim behind it shows nothing: that claim may fail each time.
        case .wait: !claims.piggyback.isOutstanding
        case .beat: claims.outstanding == 0
        default: false
        }
    }

    /// Redis lacks the settlement, claim or launch before this call: it met NOSCRIPT and has been sent again, or Redis has
    /// confirmed it and was put back to an earlier state since. Then only a registration brings the losses to light.
    private mutating func foundGap(before call: Call, now: Instant, into effects: inout [Effect]) {
        if case .settle(let batch) = call, !holdings.isOldestUnconfirmed(batch.sequence) { return effects.append(.call(call)) }
        lost("Redis has lost claims, settlements or launches that it had confirmed", now: now, into: &effects)
    }

    private mutating func understand(
        _ reply: RedisReply, to call: Call, sentAt: Instant, now: Instant, isGone: (String) -> Bool,
        into effects: inout [Effect]
    ) -> Reading {
        let items = reply.items ?? []
        switch call {
        case .register: return registered(items, sentAt: sentAt, now: now, isGone: isGone, into: &effects)
        case .claim(let claim): return claimed(claim, items, sentAt: sentAt, now: now, into: &effects)
        case .jobs(let claim): return arrived(items, chunk: claim.chunk, now: now, into: &effects) ?? .good
        case .pop(let call): return popped(call, reply, now: now, into: &effects)
        case .settle(let batch): return settled(batch, items, now: now, into: &effects)
        case .beat: return beatConfirmed(items, sentAt: sentAt, now: now, isGone: isGone, into: &effects)
        case .promote:
            guard let promoted = Promotion.Reply(items) else { return .unintelligible }
            delayed.promoted(promoted, now: now)
        case .takeOver(let takeover): return takenOver(takeover, items, now: now, into: &effects)
        case .fetch(let fetch):
            if let reading = arrived(items, chunk: fetch.chunk, now: now, into: &effects) { return reading }
            let (jobs, suspects) = holdings.fetched(items, fetch)
            claims.fill(jobs.count)
            report(claimed: jobs, suspects: suspects, into: &effects)
            reconciled(now: now, into: &effects)
        case .info:
            if reconciliation.informed(ServerInfo(reply.text ?? "")) { expect(.nodes, into: &effects) }
            reconciled(now: now, into: &effects)
        case .apps:
            reconciliation.learnedApps()
            effects.append(.report(.apps(AppRecords.topics(items))))
            reconciled(now: now, into: &effects)
        case .nodes:
            effects.append(.learn(items))
            reconciled(now: now, into: &effects)
        case .unregister: return unregistered(reply, into: &effects)
        case .wait: waited(reply, now: now, into: &effects)
        case .inspect:
            guard let found = reply.integer else { return .unintelligible }
            let finding = claims.inspected(found: found)
            lease.inspected(next: finding == .missing ? PiggybackedClaim.inspectionInterval : nil, now: now)
            if finding == .lost { return .lost("jobs did not arrive: the second connection is dead") }
        case .launch(let launch):
            guard let start = launch.start(items) else { return .unintelligible }
            report(claims.campaigns.launched(launch, start, holding: holdings.chunks, now: now), into: &effects)
        case .campaigns:
            let texts = items.compactMap(\.text)
            let found = stride(from: 0, to: texts.count - 1, by: 2).map { (id: texts[$0], created: texts[$0 + 1]) }
            for id in claims.campaigns.learned(found, holding: holdings.chunks, now: now) {
                effects.append(.call(.describe(campaign: id)))
            }
        case .describe(let id):
            guard items.count == 3 else { return .unintelligible }
            let campaign = items[0].bytes.flatMap { head in
                items[1].bytes.map { Campaign(id: id, head: head, tail: $0, stop: items[2].text.flatMap { Int($0) } ?? 0) }
            }
            report(claims.campaigns.described(id, campaign), into: &effects)
        case .keep: reconciled(now: now, into: &effects)
        case .figures(let figures):
            // Redis has forgotten a confirmed batch, and with it the figures.
            let isForgotten = figures.sequence <= holdings.confirmed
            claims.campaigns.counted(figures.sequence, isApplied: reply.integer != -1 || isForgotten)
        case .restore(let restore):
            guard let left = reply.integer else { return .unintelligible }
            claims.sides.restored(restore.app, left: left)
        case .review(let review):
            guard let next = reply.integer else { return .unintelligible }
            claims.slots.learned(Lua.NextDue(next), app: review.app, now: now)
        case .returnSlots:
            guard let left = reply.integer else { return .unintelligible }
            claims.slots.returned(left: left)
        case .adopt(let adoption):
            guard let reply = Adoption.Reply(items) else { return .unintelligible }
            let lost = reply.lost.filter { $0 < adoption.positions }.map { ClaimID(chunk: adoption.chunk, place: $0) }
            report(holdings.drop(lost), .tooLarge, into: &effects)
            reconciled(now: now, into: &effects)
        case .greeting: break
        }
        return .good
    }

    private mutating func failed(_ call: Call, _ error: ErrorReply, now: Instant, into effects: inout [Effect]) {
        if case .moved(let node) = error.kind { return redirected(error, to: node, now: now, into: &effects) }
        let isRefused = error.isRefusal && error.kind != .passwordMissing
        switch call {
        case .wait where error.kind != .passwordMissing:
            report(claims.waitFailed(error, now: now).flatMap { notices.limited($0) }, into: &effects)
        case .info, .nodes:
            // A user without the right to ask gets no warnings, and loses nothing.
            reconciled(now: now, into: &effects)
        case .apps where isRefused:
            // Without the right, the jobs of an app that the settings do not have are bad jobs.
            reconciliation.learnedApps()
            reconciled(now: now, into: &effects)
        // A right that only campaigns need, or a key of the producer, must not stop the jobs.
        case .launch(let launch) where isRefused:
            let refused = CampaignStart.refused(.redis(error))
            report(claims.campaigns.launched(launch, refused, holding: holdings.chunks, now: now), into: &effects)
        case .claim(let claim) where claim.campaign != nil && isRefused:
            claims.campaigns.claimed(0, of: claim.campaign ?? "", wait: Campaigns.refusedWait, now: now)
            report(notices.limited(.campaigns(error)), into: &effects)
        case .jobs(let claim) where claim.campaign != nil && isRefused: break
        case .campaigns where isRefused, .describe where isRefused:
            report(notices.limited(.campaigns(error)), into: &effects)
        case .figures(let figures) where isRefused:
            claims.campaigns.counted(figures.sequence, isApplied: true)
            report(notices.limited(.campaigns(error)), into: &effects)
        case .pop(.jobs) where error.kind == .wrongArgumentCount && pop?.countRefused() == true:
            claims.refused(now: now)
            report(notices.limited(.popCount), into: &effects)
        default:
            if error.isRefusal {
                refused(.reply(error), now: now, into: &effects)
            } else {
                lost(error.description, isError: true, now: now, into: &effects)
            }
        }
    }

    // MARK: Claims

    private mutating func claimed(
        _ claim: Claim, _ items: [RedisReply], sentAt: Instant, now: Instant, into effects: inout [Effect]
    ) -> Reading {
        guard let reply = Claim.Reply(items, to: claim) else { return .unintelligible }
        learned(reply.pauses, now: now, into: &effects)
        if case .slots(let app, _) = claim.source {
            for (scope, claim, holder) in reply.reviews {
                effects.append(.call(.review(SlotReview(app: app, scope: scope, claim: claim, holder: holder))))
            }
        }
        if reply.isSlow { report(notices.limited(.copying), into: &effects) }
        if pop != nil, case .slots = claim.source {
            // Redis has not kept them.
            let jobs = holdings.hold(reply.jobs, chunk: claim.chunk, from: claim.source)
            complete(claim, reply, now: now)
            report(claimed: jobs, into: &effects)
        } else if reply.count == 0 {
            complete(claim, reply, now: now)
        } else if let chunk = claims.expect(claim, reply, sentAt: sentAt) {
            effects.append(.call(.fetch(Fetch(chunk: chunk, places: [0]))))
        }
        return .good
    }

    private mutating func complete(_ claim: Claim, _ reply: Claim.Reply, now: Instant) {
        switch claim.source {
        case .list: claims.claimed(claim, reply, now: now)
        case .aside(let app):
            claims.sides.claimed(
                reply.count, of: app, isEmptied: reply.isDrained, unconfirmed: holdings.unconfirmedAsides, now: now)
        case .slots(let app, _): claims.slots.claimed(reply.count, of: app, reply.due, now: now)
        case .campaign(let id, _): claims.campaigns.claimed(reply.count, of: id, wait: reply.wait, now: now)
        }
    }

    /// The jobs of a chunk. The list is empty if the claim took nothing, or met NOSCRIPT and is sent again.
    ///
    /// - Returns: `nil` for a chunk that no claim has brought.
    private mutating func arrived(
        _ items: [RedisReply], chunk: UInt64, now: Instant, into effects: inout [Effect]
    ) -> Reading? {
        guard let arrival = claims.takeArrival(of: chunk) else { return nil }
        let found = items.compactMap(Lua.Job.init)
        if found.count != arrival.reply.count { return .lost("a claimed chunk is gone") }
        let (claim, reply) = (arrival.claim, arrival.reply)
        let jobs = holdings.hold(found, chunk: chunk, level: reply.level, from: claim.source, rank: reply.rank)
        complete(claim, reply, now: now)
        if !claim.isPiggybacked { claims.measured(jobs.reduce(0) { $0 + $1.bytes.count }, within: now - arrival.sentAt) }
        report(claimed: jobs, into: &effects)
        return .good
    }

    private mutating func popped(
        _ call: PopQueue.Call, _ reply: RedisReply, now: Instant, into effects: inout [Effect]
    ) -> Reading {
        switch call {
        case .jobs(let asked):
            guard let found = PopQueue.jobs(reply) else { return .unintelligible }
            claims.popped(found.count, isDrained: found.count < asked, now: now)
            report(claimed: hold(popped: found), into: &effects)
        case .aside(let app, _):
            guard let (found, left) = PopQueue.jobsAside(reply) else { return .unintelligible }
            let jobs = holdings.hold(found, chunk: claims.reserve(), from: .aside(app))
            claims.sides.claimed(
                jobs.count, of: app, isEmptied: left == 0, unconfirmed: holdings.unconfirmedAsides, now: now)
            report(claimed: jobs, into: &effects)
        case .merge: break
        }
        return .good
    }

    private mutating func hold(popped jobs: [Lua.Job]) -> [ClaimedJob] {
        defer { poppedRank = poppedRank.map { $0 + UInt64(jobs.count) } }
        return holdings.hold(jobs, chunk: claims.reserve(), rank: poppedRank)
    }

    private mutating func waited(_ reply: RedisReply, now: Instant, into effects: inout [Effect]) {
        var taken: [ClaimedJob] = []
        if pop != nil, let job = PopQueue.job(ofWait: reply) { taken = hold(popped: [job]) }
        claims.waited(didFindJob: reply != .null, takenJobs: taken.count, now: now)
        report(claimed: taken, into: &effects)
    }

    // MARK: Serving

    private mutating func settled(
        _ batch: SettleBatch, _ items: [RedisReply], now: Instant, into effects: inout [Effect]
    ) -> Reading {
        guard let reply = SettleBatch.Reply(items) else { return .unintelligible }
        holdings.confirm(batch.sequence)
        delayed.learned(reply.due, now: now)
        for (app, next) in zip(batch.slotApps, reply.slots) { claims.slots.learned(next, app: app, now: now) }
        let events = notices.grew(.deadLetters, reply.deadLetters) + notices.grew(.feedback, reply.feedback)
        effects += events.map(Effect.report)
        return .good
    }

    private mutating func beatConfirmed(
        _ items: [RedisReply], sentAt: Instant, now: Instant, isGone: (String) -> Bool, into effects: inout [Effect]
    ) -> Reading {
        guard let reply = Beat.Reply(items) else { return .unintelligible }
        if lease.confirmed(sentAt: sentAt, now: now) { startServing(now: now, into: &effects) }
        learned(reply, now: now, isGone: isGone)
        learned(reply.pauses, now: now, into: &effects)
        return .good
    }

    /// Gives each part the facts of a beat or registration. The pauses follow.
    private mutating func learned(_ reply: Beat.Reply, now: Instant, isGone: (String) -> Bool) {
        claims.learned(reply.recovered, now: now)
        delayed.learned(reply.due, now: now)
        claims.sides.learned(reply.asides, unconfirmed: holdings.unconfirmedAsides)
        claims.slots.learned(reply.slots, now: now)
        lease.observed(reply.counters, now: now, isGone: isGone)
    }

    private mutating func learned(_ new: [QueuePause], now: Instant, into effects: inout [Effect]) {
        lease.watch(new, now: now)
        if new.contains(where: \.isOfList) { claims.withdrawOffers(now: now) }
        report(notices.learned(new), into: &effects)
    }

    private mutating func takenOver(
        _ takeover: Takeover, _ items: [RedisReply], now: Instant, into effects: inout [Effect]
    ) -> Reading {
        switch Takeover.Reply(items) {
        case nil: return .unintelligible
        case .lists(let lists):
            effects.append(.call(.takeOver(Takeover(dead: takeover.dead, chunk: takeover.chunk, lists: lists))))
        case .alive: lease.takenOver()
        case .moved(let moved, let recovered, let suspects):
            lease.takenOver()
            effects.append(.report(.recovered(worker: takeover.dead.worker, jobs: moved + suspects.count)))
            claims.learned(recovered, now: now)
            let held = holdings.hold(suspects, chunk: takeover.chunk, level: Chunks.suspect)
            report(claimed: [], suspects: held, into: &effects)
        }
        return .good
    }

    private mutating func unregistered(_ reply: RedisReply, into effects: inout [Effect]) -> Reading {
        guard let left = reply.integer else { return .unintelligible }
        if left != 0 {
            leavesRecord = true
            if left < 0 { claims.sides.returnAllAgain() }
            let reason = left < 0 ? "the side lists are left to this worker" : "a claim on the second connection has brought jobs"
            return .lost("\(reason) during the stop")
        }
        finish(into: &effects)
        return .good
    }

    // MARK: Reconciling

    private mutating func registered(
        _ items: [RedisReply], sentAt: Instant, now: Instant, isGone: (String) -> Bool, into effects: inout [Effect]
    ) -> Reading {
        switch Registration.Reply(items) {
        case nil: return .unintelligible
        case .foreign(let found):
            foreignNumber = found.number
            let finding = reconciliation.finding(found.epoch, settled: found.settled, confirmed: holdings.confirmed)
            report(holdings.abandon(found, finding, now: now), .otherProcess, into: &effects)
            effects.append(.rename)
        case .registered(let reply):
            _ = lease.confirmed(sentAt: sentAt, now: now)
            phase = .reconciling
            compare(reply, now: now, into: &effects)
            learned(reply.beat, now: now, isGone: isGone)
            reportAsides(into: &effects)
            learned(reply.beat.pauses, now: now, into: &effects)
            if reconciliation.isCluster { expect(.nodes, into: &effects) }
            if reconciliation.wantsInfo { expect(.info, into: &effects) }
            if reconciliation.wantsApps { expect(.apps, into: &effects) }
            serveIfReconciled(now: now, into: &effects)
        }
        return .good
    }

    /// Compares the held jobs with those that Redis has, and puts those that it lacks back into a Redis that was emptied or
    /// returned to an earlier state.
    ///
    /// Until Redis has answered the calls that put jobs back, it may have none of these jobs: an emptied Redis must be recognized
    /// again after the next connect, and no settlement may be sent, because Redis skips that of a job that it does not have.
    private mutating func compare(_ reply: Registration.Registered, now: Instant, into effects: inout [Effect]) {
        let finding = reconciliation.registered(reply, number: number, confirmed: holdings.confirmed)
        let (disowned, lacking) = holdings.compare(reply, finding, nextChunk: claims.nextChunk, now: now)
        if let newest = reply.chunks.keys.max() { claims.skip(through: newest) }
        report(disowned, .takenOver, into: &effects)
        reconciliation.warn(of: finding, putBack: lacking.count)
        effects += claims.campaigns.launchesToRepeat(holding: holdings.chunks).map { .call(.launch($0)) }
        let adoptions = holdings.adopt(lacking)
        if adoptions.isEmpty { sendSettlements(into: &effects) }
        let fetches = holdings.fetches(atMost: claims.jobsOfFetch)
        claims.isFetching = !fetches.isEmpty
        if !lacking.isEmpty {
            for campaign in claims.campaigns.of(lacking.compactMap(holdings.chunks.bytes)) {
                expect(.keep(campaign), into: &effects)
            }
        }
        for adoption in adoptions { expect(.adopt(adoption), into: &effects) }
        for fetch in fetches { expect(.fetch(fetch), into: &effects) }
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

/// The time at which the first job in `delayed` is due, and so the next promotion.
struct DelayedJobs {
    private static let interval = Duration.milliseconds(100)

    private var dueAt: Instant?
    /// A promotion awaits its reply.
    var isPromoting = false

    mutating func learned(_ due: Lua.NextDue, now: Instant) {
        switch due {
        case .unknown: break
        case .never: dueAt = nil
        case .after(let delay): dueAt = now + delay
        }
    }

    /// The next promotion comes after the interval, unless more jobs were due than one promotion moves.
    mutating func promoted(_ reply: Promotion.Reply, now: Instant) {
        isPromoting = false
        learned(reply.due, now: now)
        if reply.count < Promotion.mostJobs, let next = dueAt { dueAt = max(next, now + DelayedJobs.interval) }
    }

    var promotesAt: Instant? { isPromoting ? nil : dueAt }

    mutating func startsPromotion(now: Instant) -> Bool {
        guard let promotesAt, now >= promotesAt else { return false }
        isPromoting = true
        return true
    }
}
