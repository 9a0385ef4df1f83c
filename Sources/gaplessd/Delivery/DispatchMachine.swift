import DequeModule
import Platform
import PushPool
import RedisQueue

/// Decides what the dispatcher does next: takes facts about lists, pools, signals and time, and returns effects. It knows no
/// socket and no clock.
///
/// A turn is: `turnBegan`, facts, `tick`, offers to the lists, their claims, `takeOutgoing`. It decides what becomes of a claimed
/// job. An `AppMachine` for each app holds the job until its outcome has a meaning, a `ListMachine` for each list says what may
/// be claimed, `Settler` ends jobs, and `Shutdown` decides when to stop. Whatever concerns several of them happens here.
///
/// `isCurrent` says of the session behind a fact whether it presents the credential that is in use now, or did so at its end.
struct DispatchMachine: ~Copyable {
    private var turn: Turn
    private var apps = UniqueDeque<AppMachine>()
    /// The apps with a pool or with jobs, in order. The work of a turn depends on their number alone.
    private(set) var awake: [Int] = []
    /// The number of apps that have no pool, and would get one with their first job.
    private var cold = 0
    /// By list, as the next two.
    private var lists: [ListMachine]
    private var campaigns: [CampaignMachine]
    private var splits = UniqueDeque<Splits>()
    private var settler: Settler
    private var budget = ClaimBudget()
    private var shutdown = Shutdown()
    /// Recent failures of device tokens.
    private var memory = TokenMemory()
    /// The channels that jobs name.
    private var channels = ChannelNames()
    private var warnings = JobWarnings()
    /// Whether Redis has served a list.
    private(set) var hasConnected = false

    /// - Parameter workers: the name of this worker at each list.
    init(_ plan: DispatchPlan, workers: [String], now: Instant, wallClock: WallClock) {
        lists = plan.lists.map(ListMachine.init)
        campaigns = plan.lists.indices.map(CampaignMachine.init)
        settler = Settler(workers: workers)
        turn = Turn(plan, now: now, wallClock: wallClock)
        for _ in plan.lists { splits.append(Splits()) }
        for app in plan.apps.indices {
            append(app)
            // The pools of usable apps exist already.
            if plan.idleTimeout == .zero && plan.apps[app].maySend { wake(app, isForJobs: false) }
        }
    }

    // MARK: Time

    mutating func turnBegan(now: Instant, wallClock: WallClock) { (turn.now, turn.wallClock) = (now, wallClock) }

    /// Does what is due, after the facts of the turn.
    mutating func tick(_ effects: inout [DispatchEffect]) {
        tell(awake, &effects) { $0.tick($1) }
        resumeSplits(&effects)
        letIdleAppsSleep(&effects)
        for warning in turn.plan.certificates.look(now: turn.now, wallClock: turn.wallClock) {
            effects.append(.log(.certificate(warning)))
        }
        perform(shutdown.tick(now: turn.now, held: inFlight), &effects)
    }

    /// The earliest pending timer.
    var deadline: Instant? {
        var next = Earliest(budget.nextRefill)
        for app in awake { next.consider(apps[app].deadline(now: turn.now, idleTimeout: turn.plan.idleTimeout)) }
        next.consider(turn.plan.certificates.deadline(now: turn.now))
        next.consider(shutdown.deadline)
        return next.instant
    }

    // MARK: Places

    /// Computes how many jobs could go out now, before `offer` divides them among the lists.
    ///
    /// - Parameter limit: of all apps together; `nil` without one.
    mutating func countPlaces(limit: ClaimBudget.Rate?) {
        budget.begin(
            isDivided: lists.contains { $0.hasAsides || $0.hasSlots } || campaigns.contains(where: \.isActive), apps: apps.count)
        if turn.isLeaving { return }
        for app in awake {
            budget.add(
                apps[app].places(now: turn.now), app: app, limit: apps[app].limit, waiting: apps[app].waiting, now: turn.now)
        }
        if cold > 0 { budget.addCold(AppMachine.mostWhileOpening) }
        budget.limit(under: limit, now: turn.now)
    }

    /// Returns how many jobs to claim from `list`. A list of lower priority gets places only while those before it are empty.
    ///
    /// - Parameter mayHaveJobs: whether the list lacks only places.
    mutating func offer(to list: Int, mayHaveJobs: Bool) -> Int {
        if !lists[list].mayClaim { return 0 }
        defer { if mayHaveJobs { budget.close() } }
        return lists[list].claims(for: budget.places { lists[list].isAside(app: $0) })
    }

    /// Whether `offerAsides` or `offerSlots` has something to say.
    var hasAsides: Bool { budget.isDivided }

    /// Returns how many jobs to claim from the slots of `list`, by the name of the app. Call before `offerAsides`.
    ///
    /// The places of an app are offered to its slots and to the list: at most one job of each scope leaves its slot.
    func offerSlots(to list: Int) -> [(app: String, places: Int)] {
        var offers: [(app: String, places: Int)] = []
        for app in lists[list].slotApps {
            let mayClaim = lists[list].mayClaim && lists[list].isConnected && !apps[app].isPaused(in: list)
            offers.append((turn.plan.apps[app].name ?? "", mayClaim ? budget.places(of: app) : 0))
        }
        return offers
    }

    /// Returns how many jobs to claim from the side lists of `list`, by the name of the app. Call before `offer`.
    mutating func offerAsides(to list: Int) -> [(app: String, places: Int)] {
        var offers: [(app: String, places: Int)] = []
        for app in awake where lists[list].isAside(app: app) {
            // A list that Redis does not serve now leaves its places to the next one.
            let mayClaim = lists[list].mayClaim && lists[list].isConnected && !apps[app].isPaused(in: list)
            offers.append((turn.plan.apps[app].name ?? "", mayClaim ? budget.take(app: app) : 0))
        }
        return offers
    }

    /// Whether `offerCampaigns` has something to say.
    func hasCampaigns(in list: Int) -> Bool { campaigns[list].isActive }

    /// Returns how many tokens to claim, by campaign. Those of one app share its places evenly. Call before `offer`.
    ///
    /// - Parameters:
    ///   - hasJobs: whether the list may have jobs, which go first.
    ///   - resting: the campaigns that cannot use their places yet: the list gets these.
    mutating func offerCampaigns(
        to list: Int, hasJobs: Bool, resting: Set<String> = []
    ) -> [CampaignMachine.Offer] {
        var places: [Int: CampaignMachine.Places] = [:]
        if lists[list].mayClaim && lists[list].isConnected {
            for app in campaigns[list].apps where !apps[app].isPaused(in: list) {
                places[app] = .init(free: budget.places(of: app), hasJobs: hasJobs || lists[list].isAside(app: app))
            }
        }
        let offers = campaigns[list].offers(resting: resting, of: places)
        for offer in offers { if let app = offer.app { budget.take(offer.places, of: app) } }
        return offers
    }

    // MARK: Claimed jobs

    private mutating func claimed(_ claims: [ClaimedJob], list: Int, _ effects: inout [DispatchEffect]) {
        settler.countClaims(claims.count)
        splits[list].claimBegan()
        if hasCampaigns(in: list) { campaigns[list].claimed(claims, share: turn.plan.campaignShare) }
        var givenBack = 0
        for claim in claims where !place(claim, list: list, &effects) { givenBack += 1 }
        if apps.count > 1 || turn.plan.routes.hasFormer || campaigns[list].hasPaused {
            lists[list].claimEnded(placed: givenBack < claims.count, givenBack: givenBack > 0)
        }
    }

    /// Decides where a claimed job goes: reads it, finds its app, and checks its dates, its token and its words. Returns false if
    /// it was given back.
    ///
    /// The first row that fits applies; `JobTableTests` runs each of them:
    ///
    ///     claimed job                                   next
    ///     `replaces`, or a broadcast with a pace        into its slot, unless it comes from there
    ///     gaplessd stops, or the list is paused         released
    ///     too large, not readable, or only bad tokens   dead letter
    ///     its app was removed, also with `replaces`     set aside
    ///     `not_before` to come, and not expired         delayed
    ///     no app, or no topic                           dead letter
    ///     its campaign is paused                        set aside
    ///     the app cannot take it, and not expired       released; in a list of several apps, set aside
    ///     expired, or filtered                          dead letter
    ///     its channel is being found or created         delayed
    ///     it names a channel that does not exist        dead letter
    ///     several tokens                                split: its parts are claimed in turn
    ///     its tokens are in a key                       its campaign begins
    ///     its token is paused, and it is not a retry    delayed
    ///     otherwise                                     held, and outgoing
    ///
    /// So a job with several tokens is one job until its app takes jobs.
    private mutating func place(_ claim: ClaimedJob, list: Int, _ effects: inout [DispatchEffect]) -> Bool {
        if turn.isLeaving || lists[list].isPaused, !claim.isFromSlot, !RankMark.isNeeded(claim.bytes) {
            return giveBack(claim, app: appOfOlder(claim), list: list, &effects)
        }
        if CampaignToken.begins(claim.bytes) {
            if let campaign = campaigns[list].campaign(of: claim.bytes) {
                return place(claim, of: campaign, list: list, &effects)
            }
            if let token = CampaignToken(claim.bytes) { return placeStray(token, claim, list: list, &effects) }
        }
        do throws(JobError) {
            if let size = claim.fullSize {
                throw .structure("a job of \(size) bytes, more than \(ClaimedJob.mostBytes)")
            }
            return try place(try turn.plan.reader.read(claim.bytes), of: claim, list: list, &effects)
        } catch {
            settler.reject(claim, .bad(error), list: list, turn, &effects)
            return true
        }
    }

    /// A token of a campaign: its job is that of the campaign.
    private mutating func place(
        _ claim: ClaimedJob, of campaign: CampaignJob, list: Int, _ effects: inout [DispatchEffect]
    ) -> Bool {
        do throws(JobError) {
            return try place(try campaign.job(for: claim.bytes), of: claim, list: list, campaign: campaign, &effects)
        } catch {
            var single = claim
            single.bytes = campaign.element(for: claim.bytes)
            var fault = error
            // Read by itself, the job names the place and the likely cause.
            do throws(JobError) { _ = try turn.plan.reader.read(single.bytes) } catch { fault = error }
            settler.reject(single, .bad(fault, campaign: campaign.campaign.id), list: list, turn, &effects)
            return true
        }
    }

    /// A token of a campaign that is not known.
    private mutating func placeStray(
        _ token: CampaignToken, _ claim: ClaimedJob, list: Int, _ effects: inout [DispatchEffect]
    ) -> Bool {
        if campaigns[list].lacks(token.campaign) {
            let fault = JobError.structure("the campaign of a token does not exist any more")
            settler.reject(claim, .bad(fault), list: list, turn, &effects)
        } else {
            effects.append(.describe(campaign: token.campaign, list: list))
            settler.postpone(claim, .after(.seconds(1)), list: list, &effects)
        }
        return true
    }

    private mutating func place(
        _ job: consuming Job, of claim: ClaimedJob, list: Int, campaign: CampaignJob? = nil,
        _ effects: inout [DispatchEffect]
    ) throws(JobError) -> Bool {
        if turn.plan.routes.hasFormer, let name = turn.plan.routes.formerApp(name: job.app, topic: job.topic) {
            setAside(claim, job, ofFormerApp: name, list: list, &effects)
            return false
        }
        if job.hasReplaces || claim.isFromSlot || job.namesChannel,
            let isPlaced = try placeInSlot(job, claim, list: list, &effects)
        {
            return isPlaced
        }
        let isExpired = job.isExpired(now: turn.wallClock.unixSeconds)
        if !isExpired, let due = start(of: job, &effects) {
            settler.postpone(claim, due, list: list, &effects)
            return true
        }
        let app = if let app = campaign?.app { app } else { try turn.plan.routes.app(for: job) }
        if apps[app].isAsleep && !isExpired { wakeForJobs(app, list: list, &effects) }
        if campaigns[list].hasPaused, let aside = campaigns[list].aside(of: job.campaign) {
            let effect = Settlement.Effect.release(toTail: !claim.wasClaimed && job.attempts == 0)
            settler.giveBack(claim, effect, aside: aside, list: list, &effects)
            return false
        }
        guard isExpired || takes(claim, app: app, list: list) else {
            return giveBack(claim, app: app, list: list, isRetry: job.attempts > 0, &effects)
        }
        if !isExpired && job.isUnusual { warnings.warn(of: job, now: turn.now, &effects) }
        let held: HeldJob
        if let name = job.channelName, !isExpired {
            var named = copy job
            if let pause = try channels.find(name, for: &named, app: app, turn, &effects) {
                settler.postpone(claim, .after(pause), list: list, &effects)
                return true
            }
            held = HeldJob(named, claim, list: list, app: app, campaign: campaign, turn)
        } else {
            held = HeldJob(job, claim, list: list, app: app, campaign: campaign, turn)
        }
        if isExpired {
            settler.end(held, .expire, turn, &effects)
        } else if held.isStopped(by: turn) {
            settler.end(held, .filter, turn, &effects)
        } else if case .tokens = held.job.target {
            return split(held, of: claim, &effects)
        } else if case .audience = held.job.target, let order = held.job.order {
            if turn.plan.owns(key: order.source) {
                launched(claim, .refused(.reserved), list: list, &effects)
            } else {
                effects.append(.launch(order, claim, list: list))
            }
        } else if let pause = memory.pause(held, now: turn.now) {
            settler.postpone(claim, .after(pause), list: list, &effects)
        } else {
            apps[app].take(held, turn)
        }
        return true
    }

    /// The settings do not have the app any more: its jobs wait in order until it is back. They keep their ranks.
    private mutating func setAside(
        _ claim: ClaimedJob, _ job: borrowing Job, ofFormerApp name: String, list: Int, _ effects: inout [DispatchEffect]
    ) {
        let toTail = !claim.wasClaimed && job.attempts == 0
        let isMarked = job.rank == nil && claim.rank > 0 && job.hasReplaces
        let effect: Settlement.Effect =
            isMarked
            ? .replace(with: Job.marked(rank: claim.rank, claim.bytes), toTail: toTail) : .release(toTail: toTail)
        settler.giveBack(claim, effect, aside: name, list: list, &effects)
    }

    /// Puts a job with a scope into its slot; a job from there goes out. `nil` for a job without a scope, or with several tokens.
    private mutating func placeInSlot(
        _ job: borrowing Job, _ claim: ClaimedJob, list: Int, _ effects: inout [DispatchEffect]
    ) throws(JobError) -> Bool? {
        let app = try turn.plan.routes.app(for: job)
        if case .tokens = job.target {
            // Its parts keep its rank.
            if claim.rank == 0 || job.rank != nil { return nil }
            let marked = Job.marked(rank: claim.rank, claim.bytes)
            settler.giveBack(claim, .replace(with: marked, toTail: false), list: list, &effects)
            splits[list].partsReturn(rank: claim.rank, now: turn.now)
            return true
        }
        let isPaced = turn.plan.pacesChannels || lists[list].slotApps.contains(app)
        if !claim.isFromSlot && !job.hasReplaces && !isPaced { return nil }
        let isExpired = job.isExpired(now: turn.wallClock.unixSeconds)
        let source = claim.isFromSlot ? job.scope(app: turn.plan.apps[app].name, rank: claim.rank) : nil
        var found = copy job
        var pause: Duration?
        if !isExpired, let name = job.channelName {
            do throws(JobError) {
                pause = try channels.find(name, for: &found, app: app, turn, &effects)
            } catch {
                settler.reject(claim, .bad(error, scope: source), list: list, turn, &effects)
                return true
            }
            // Only the newest state waits for its channel in a slot.
            if pause != nil && !claim.isFromSlot && !job.hasReplaces { return nil }
            if pause == nil { found.enters(channel: found.text(of: found.tokens[0])) }
        }
        let isMoved = source != nil && found.channelMark != job.channelMark
        let held = HeldJob(found, claim, list: list, app: app, turn)
        if isExpired {
            settler.end(held, .expire, turn, &effects)
        } else if claim.isFromSlot, let pause {
            settler.end(held, .postpone(pause), turn, &effects)
        } else if isMoved {
            // Other states of the channel may be on their way.
            settler.keep(held, from: source, turn, &effects)
        } else if claim.isFromSlot {
            placeFromSlot(held, claim, &effects)
        } else if held.isStopped(by: turn) {
            settler.end(held, .filter, turn, &effects)
        } else {
            if job.isUnusual { warnings.warn(of: job, now: turn.now, &effects) }
            let wait = pause ?? splits[list].waitForParts(before: job.rank ?? claim.rank, now: turn.now)
            let due = start(of: job, &effects) ?? wait.map(Settlement.Due.after)
            lists[list].addSlot(app: app)
            wakeForJobs(app, list: list, &effects)
            settler.keep(held, due: due, turn, &effects)
        }
        return true
    }

    /// The job is the push of its scope that is on its way, unless it cannot go out now.
    private mutating func placeFromSlot(_ held: HeldJob, _ claim: ClaimedJob, _ effects: inout [DispatchEffect]) {
        let (app, list) = (held.app, held.list)
        if turn.isLeaving || lists[list].isPaused {
            settler.end(held, .release(), turn, &effects)
        } else if !takes(claim, app: app, list: list) {
            settler.end(held, .postpone(Self.slotInterval), turn, &effects)
        } else if campaigns[list].aside(of: held.job.campaign) != nil {
            settler.end(held, .postpone(Self.pausedInterval), turn, &effects)
        } else if held.isStopped(by: turn) {
            settler.end(held, .filter, turn, &effects)
        } else if let pause = memory.pause(held, now: turn.now) {
            settler.end(held, .postpone(pause), turn, &effects)
        } else {
            apps[app].take(held, turn)
        }
    }

    /// The time after which a job that its app could not take is claimed from its slot again.
    private static let slotInterval = Duration.seconds(1)
    /// The same for a job whose campaign is paused: with 10,000 of them, about ten claims a second.
    private static let pausedInterval = Duration.seconds(5)

    /// The time of `not_before`, if it is to come.
    @inline(__always)
    private func start(of job: borrowing Job, _ effects: inout [DispatchEffect]) -> Settlement.Due? {
        guard let start = job.notBefore, start > turn.wallClock.seconds else { return nil }
        if let hint = job.notBeforeHint { effects.append(.log(.unusualNotBefore(job, hint: hint))) }
        // Redis' sorted sets hold doubles: 2^53 ms is the last exact one.
        return .at(milliseconds: Int64(min(start * 1000, 9_007_199_254_740_992)))
    }

    /// The keeper has found a channel, or not.
    mutating func answered(_ answer: ChannelKeeper.Answer) { channels.answered(answer, now: turn.now) }

    /// Whether the app takes the job. Jobs that are set aside go before those of the list.
    private func takes(_ claim: ClaimedJob, app: Int, list: Int) -> Bool {
        guard apps[app].takesOne(from: list, now: turn.now) else { return false }
        return apps.count == 1 || (apps[app].hasRoom && (claim.wasClaimed || !lists[list].isAside(app: app)))
    }

    /// Replaces a job with several tokens by its parts, or gives it back until the parts before it are gone. The parts of a job
    /// from a side list are claimed from there. If most of its tokens that may be on their way are, it stays claimed.
    private mutating func split(_ job: HeldJob, of claim: ClaimedJob, _ effects: inout [DispatchEffect]) -> Bool {
        let (app, list) = (job.app, job.list)
        let sent = splits[list].tokensBefore(rest: job.job)
        let pending = sent.isEmpty ? [] : apps[app].pending(sent)
        let places = apps[app].furtherPlaces(now: turn.now)
        let isAside = lists[list].isAside(app: app)
        switch splits[list].split(job, of: claim, pending: pending, places: places) {
        case .waits: return true
        case .later: return giveBack(claim, app: isAside ? app : nil, list: list, isRetry: true, &effects)
        case .parts(let parts):
            let aside = isAside ? aside(of: app, list: list) : nil
            settler.giveBack(claim, .split(into: parts), aside: aside, list: list, &effects)
            if job.job.hasReplaces, let rank = job.job.rank { splits[list].partsReturn(rank: rank, now: turn.now) }
            return true
        }
    }

    /// Places the jobs again whose tokens before are gone.
    private mutating func resumeSplits(_ effects: inout [DispatchEffect]) {
        for list in splits.indices where splits[list].isWaiting {
            let responded = splits[list].pending.filter { !apps[$0.app].isPending($0) }
            for claim in splits[list].responded(to: Set(responded)) { _ = place(claim, list: list, &effects) }
        }
    }

    /// The app of a job that comes from a side list, where it belongs in front.
    private mutating func appOfOlder(_ claim: ClaimedJob) -> Int? {
        guard claim.wasClaimed, let job = try? turn.plan.reader.read(claim.bytes) else { return nil }
        return try? turn.plan.routes.app(for: job)
    }

    /// - Parameters:
    ///   - app: `nil` for a job that returns to the list, whatever its app.
    ///   - isRetry: whether it goes before the other jobs of its app.
    private mutating func giveBack(
        _ claim: ClaimedJob, app: Int?, list: Int, isRetry: Bool = false, _ effects: inout [DispatchEffect]
    ) -> Bool {
        let aside = if let app { aside(of: app, list: list) } else { String?.none }
        let toTail = aside != nil && !claim.wasClaimed && !isRetry
        settler.giveBack(claim, .release(toTail: toTail), aside: aside, list: list, &effects)
        return false
    }

    /// The side list to which a job of the app goes back, by its name; `nil` for the list itself.
    ///
    /// In a list of several apps, jobs of an app that cannot take them are set aside, so that the others pass. Jobs of a list
    /// that is paused or left return to it, unless older ones of their app are aside.
    private mutating func aside(of app: Int, list: Int) -> String? {
        if apps.count > 1 && !turn.isLeaving && !lists[list].isPaused { lists[list].setAside(app: app) }
        return lists[list].isAside(app: app) ? turn.plan.apps[app].name ?? "" : nil
    }

    private mutating func aside(of job: HeldJob) -> String? {
        campaigns[job.list].aside(of: job.job.campaign) ?? aside(of: job.app, list: job.list)
    }

    // MARK: Apps with and without sessions

    private mutating func append(_ app: Int) {
        apps.append(AppMachine(index: app, listCount: lists.count))
        if turn.plan.apps[app].maySend { cold += 1 }
        for list in lists.indices where lists[list].pauses.contains(where: { $0.stops(app: turn.plan.apps[app].name) }) {
            apps[app].setPaused(true, list: list)
        }
    }

    private mutating func wake(_ app: Int, isForJobs: Bool) {
        if turn.plan.apps[app].maySend { cold -= 1 }
        apps[app].wake(isForJobs: isForJobs, now: turn.now)
        awake.insert(app, at: awake.firstIndex { $0 > app } ?? awake.count)
    }

    /// Jobs of the app are in the list: it needs sessions, if it may send.
    private mutating func wakeForJobs(_ app: Int, list: Int, _ effects: inout [DispatchEffect]) {
        guard apps[app].isAsleep, turn.plan.apps[app].maySend, !turn.isLeaving, !apps[app].isPaused(in: list) else { return }
        wake(app, isForJobs: true)
        effects.append(.open(app: app))
    }

    /// Wakes the apps for which the list has side lists, slots or campaigns.
    private mutating func wakeApps(of list: Int, _ effects: inout [DispatchEffect]) {
        let wanted = lists[list].asides.union(lists[list].slotApps).union(campaigns[list].apps)
        for app in wanted.sorted() where apps[app].isAsleep { wakeForJobs(app, list: list, &effects) }
    }

    /// Apps without jobs for `idleTimeout` lose their sessions, and apps that may not send after their last job.
    private mutating func letIdleAppsSleep(_ effects: inout [DispatchEffect]) {
        for app in awake {
            let isHeld = !turn.plan.apps[app].maySend
            guard isHeld || turn.plan.idleTimeout > .zero else { continue }
            if isHeld {
                guard apps[app].count == 0 else { continue }
            } else {
                let hasJobs = lists.contains { $0.hasJobs(ofApp: app) } || campaigns.contains { $0.hasTokens(ofApp: app) }
                guard apps[app].isIdle(for: turn.plan.idleTimeout, hasJobs: hasJobs, now: turn.now) else { continue }
            }
            apps[app].fallAsleep(now: turn.now)
            awake.removeAll { $0 == app }
            // The pool of an app that may not send has ended before.
            if isHeld { continue }
            cold += 1
            effects.append(.finish(app: app))
        }
    }

    // MARK: Apps

    /// Tells these apps a fact, and performs the effects of each before the next one learns it.
    private mutating func tell(
        _ numbers: some Sequence<Int>, _ effects: inout [DispatchEffect], _ fact: (inout AppMachine, borrowing Turn) -> Void
    ) {
        for app in numbers {
            fact(&apps[app], turn)
            performEffects(of: app, &effects)
        }
    }

    /// Ends the jobs of an app, and carries what it has learned to the apps that share its credential.
    private mutating func performEffects(of app: Int, _ effects: inout [DispatchEffect]) {
        if !apps[app].hasEffects { return }
        for effect in apps[app].takeEffects() {
            switch effect {
            case .end(let job, .deadLetter(let outcome, _))
            where channels.mayHaveChanged(for: job, after: outcome, turn, &effects):
                settler.end(job, .postpone(ChannelNames.shortestWait), turn, &effects)
            case .end(let job, let end):
                let aside: String? = if case .release = end, !job.isFromSlot { aside(of: job) } else { nil }
                if case .pace = end { lists[job.list].addSlot(app: app) }
                settler.end(job, end, aside: aside, turn, &effects)
            case .remember(let token, let session, let delay, let pauses):
                let key = TokenMemory.Key(app: app, token: token)
                memory.failed(key, on: session, delay: delay, pauses: pauses, now: turn.now)
            case .throttleEnded:
                for other in turn.plan.sharers(of: app) where other != app {
                    apps[other].throttleEnded(turn)
                    performEffects(of: other, &effects)
                }
            case .perform(let effect): effects.append(effect)
            }
        }
    }

    /// Moves the notifications that may go out to `batch`, which is empty. Those of a list whose lease is in doubt stay here:
    /// another worker may soon hold their jobs.
    mutating func takeOutgoing(of app: Int, into batch: inout [Notification]) {
        if lists.contains(where: \.isInDoubt) {
            let lists = lists
            apps[app].suspend { lists[$0].isInDoubt }
        }
        apps[app].takeOutgoing(into: &batch)
    }

    /// A pool has given back notifications that no session had taken.
    mutating func withdrew(
        _ ids: [JobID], _ withdrawal: DispatchEffect.Withdrawal, app: Int, _ effects: inout [DispatchEffect]
    ) {
        apps[app].withdrew(ids, withdrawal, turn)
        performEffects(of: app, &effects)
    }

    mutating func observed(_ reading: PoolHealth.Reading, app: Int) {
        apps[app].observed(reading, sharesLists: apps.count > 1, now: turn.now)
    }

    mutating func happened(_ event: PoolEvent, app: Int, isCurrent: Bool, _ effects: inout [DispatchEffect]) {
        apps[app].happened(event, isCurrent: isCurrent, turn)
        performEffects(of: app, &effects)
    }

    /// Redis remembers acceptances: the time since the last one, by `DispatchPlan.App.fingerprint`.
    mutating func remembered(_ ages: [String: Duration], _ effects: inout [DispatchEffect]) {
        tell(apps.indices, &effects) { app, turn in
            if let age = ages[turn.plan.apps[app.index].fingerprint] { app.remembered(age: age, turn) }
        }
    }

    // MARK: Outcomes

    /// Whether an acceptance of the app may change its circuit breaker. Only then it matters which credential the session
    /// presents.
    func awaitsAcceptance(app: Int) -> Bool { !apps[app].isAtRest }

    /// - Parameters:
    ///   - isCurrent: any value unless `awaitsAcceptance`.
    ///   - times: for results and metrics; `nil` without them.
    mutating func delivered(
        _ id: JobID, _ acceptance: Acceptance?, isCurrent: Bool, times: AttemptTimes? = nil, _ effects: inout [DispatchEffect]
    ) {
        guard let job = apps[id.app].delivered(id, isCurrent: isCurrent, times: times, turn) else { return }
        performEffects(of: id.app, &effects)
        if job.job.endsChannel, let name = channels.name(of: job, in: turn.plan) { effects.append(.askKeeper(.ended(name))) }
        settler.delivered(job, acceptance, turn, &effects)
    }

    /// The request has left with this deadline.
    func began(_ id: JobID, expiration: Int64) { apps[id.app].began(id, expiration: expiration) }

    /// An attempt ended without an acceptance.
    ///
    /// - Parameter random: from 0 to 1, for jitter.
    mutating func failed(_ attempt: Delivery, isCurrent: Bool, random: Double, _ effects: inout [DispatchEffect]) {
        let app = JobID(attempt.id).app
        let needsDecision = apps[app].attemptEnded(attempt, turn)
        performEffects(of: app, &effects)
        if !needsDecision { return }
        if isCurrent, let (reason, pause) = RetryPolicy.throttle(attempt.outcome), !turn.plan.policy.hasRule(for: attempt.outcome)
        {
            for other in turn.plan.sharers(of: app) {
                apps[other].throttled(reason, for: pause, isOwnResponse: other == app, turn)
                performEffects(of: other, &effects)
            }
        }
        apps[app].decide(attempt, isCurrent: isCurrent, random: random, turn)
        performEffects(of: app, &effects)
    }

    mutating func renewedToken(
        _ renewal: SessionPool.TokenRenewal, for id: JobID, refusedOn session: SessionID, _ effects: inout [DispatchEffect]
    ) {
        apps[id.app].renewedToken(renewal, for: id, refusedOn: session, turn)
        performEffects(of: id.app, &effects)
    }

    // MARK: Lists

    /// - Parameter server: where the list was found, if it has just connected and the settings do not name it.
    mutating func happened(_ event: QueueEvent, list: Int, server: Endpoint? = nil, _ effects: inout [DispatchEffect]) {
        switch event {
        case .claimed(let claims): claimed(claims, list: list, &effects)
        case .suspects(let claims):
            for claim in claims { settler.reject(claim, .crashSuspect, list: list, turn, &effects) }
        case .disowned(let claims, let loss):
            let all = Set(claims)
            splits[list].disowned(all)
            tell(awake, &effects) { app, _ in app.disowned(all, list: list) }
            effects.append(.log(.disowned(claims.count, loss)))
        // The log gets the cause once the worker is registered again.
        case .registrationLost: leaseInDoubt(list: list, &effects)
        case .renamed(let worker, let number):
            settler.renamed(to: worker, list: list)
            effects.append(.log(.renamed(to: worker, number: number, list: nameInLog(of: list))))
        case .leaseInDoubt:
            effects.append(.log(.leaseInDoubt(list: nameInLog(of: list))))
            leaseInDoubt(list: list, &effects)
        case .connected:
            connected(list: list)
            restoreUnknownAsides(of: list, &effects)
        case .resumed: connected(list: list)
        case .interrupted, .refused, .disconnected: lists[list].disconnected()
        case .limited, .recordsTrimmed, .recordsMany, .recovered: break
        case .paused(let pauses): paused(pauses, list: list, &effects)
        case .slots(let names):
            lists[list].reported(slots: names, of: turn.plan.routes)
            wakeApps(of: list, &effects)
        case .aside(let names):
            lists[list].reported(asides: names, of: turn.plan.routes)
            // Before, the apps that daemons have had are not known.
            if lists[list].isConnected { restoreUnknownAsides(of: list, &effects) }
            wakeApps(of: list, &effects)
        case .apps(let known): turn.plan.remember(known)
        case .campaigns(let known, let active):
            campaigns[list].learned(known, active: active, &turn.plan.reader, turn.plan.routes)
            wakeApps(of: list, &effects)
        case .campaignMissing(let id): campaigns[list].isMissing(id)
        case .launched(let claim, let start): launched(claim, start, list: list, &effects)
        case .stopped:
            lists[list].stopped()
            if lists.allSatisfy(\.isStopped) { perform(shutdown.everyListStopped(), &effects) }
        }
        for entry in LogEntry.queue(event, list: lists[list].name, at: server, server: turn.plan.server) {
            effects.append(.log(entry))
        }
    }

    /// Redis has begun the campaign of a claimed job, or not. A stopping queue does not report it, and returns the job.
    private mutating func launched(
        _ claim: ClaimedJob, _ start: CampaignStart, list: Int, _ effects: inout [DispatchEffect]
    ) {
        switch start {
        case .begun(let id, let tokens):
            effects.append(.log(.campaignBegan(id, tokens: tokens, list: nameInLog(of: list))))
            settler.giveBack(claim, .split(into: JobParts(texts: [])), list: list, &effects)
        case .refused(let reason):
            let key =
                if let job = try? turn.plan.reader.read(claim.bytes), case .audience(let audience) = job.target {
                    audience.key
                } else {
                    ""
                }
            settler.reject(claim, .bad(reason.fault(ofKey: key)), list: list, turn, &effects)
        }
    }

    /// The lease of the list is certain.
    private mutating func connected(list: Int) {
        hasConnected = true
        lists[list].connected()
        for app in awake { apps[app].resume(list: list) }
    }

    private mutating func leaseInDoubt(list: Int, _ effects: inout [DispatchEffect]) {
        lists[list].leaseInDoubt()
        tell(awake, &effects) { app, _ in app.leaseInDoubt(list: list) }
    }

    /// Jobs of an app that the settings do not have return to the list, where they are bad jobs, and so do the jobs of a campaign
    /// that was resumed.
    private func restoreUnknownAsides(of list: Int, _ effects: inout [DispatchEffect]) {
        let unknown = lists[list].unknownAsides(besides: turn.plan.routes, paused: campaigns[list].asides)
        for app in unknown { effects.append(.restore(aside: app, list: list)) }
    }

    /// These pauses are in force from now on. Requests on the wire complete; jobs that no session has taken return to the list.
    private mutating func paused(_ pauses: [QueuePause], list: Int, _ effects: inout [DispatchEffect]) {
        let known = lists[list].pauses
        let notes = pauses.map(PauseNote.init)
        let name = nameInLog(of: list)
        for note in known where !notes.contains(where: { $0.app == note.app && $0.campaign == note.campaign }) {
            effects.append(.log(.unpaused(note, list: name)))
        }
        for note in notes where !known.contains(note) { effects.append(.log(.paused(note, list: name))) }
        lists[list].paused(notes, turn.plan)
        let areStopped = turn.plan.apps.map { app in notes.contains { $0.stops(app: app.name) } }
        campaigns[list].paused(notes)
        let pausedCampaigns = campaigns[list].paused
        tell(apps.indices, &effects) { app, _ in
            app.setPaused(areStopped[app.index], list: list)
            app.setPaused(campaigns: pausedCampaigns, list: list)
        }
        restoreUnknownAsides(of: list, &effects)
        wakeApps(of: list, &effects)
    }

    private func nameInLog(of list: Int) -> String? { lists.count == 1 ? nil : lists[list].name }

    // MARK: Signals

    mutating func reloadSignalReceived(_ effects: inout [DispatchEffect]) {
        effects.append(turn.isLeaving ? .log(.reloadIgnored) : .readConfiguration)
    }

    /// Holds the apps whose credentials cannot be used. Call once, at the start.
    mutating func holdFaultyApps(_ effects: inout [DispatchEffect]) {
        tell(apps.indices, &effects) { $0.holdIfFaulty($1) }
    }

    /// A configuration was read, and the pools and lists have it already. It has the same lists, and new apps behind the others.
    ///
    /// - Parameter replaced: for each app, whether its sessions are replaced; `nil` is all.
    /// - Returns: the previous plan. With thousands of apps, to free it takes longer than to adopt the next one.
    @discardableResult
    mutating func adopted(
        _ plan: DispatchPlan, replaced: [Bool]? = nil, _ effects: inout [DispatchEffect]
    ) -> DispatchPlan {
        let former = turn.plan
        let old = former.apps
        let isEager = plan.idleTimeout == .zero && former.idleTimeout > .zero
        turn.plan.adopt(plan)
        for app in plan.apps.indices {
            let isReplaced = replaced?[app] ?? true
            // For each of thousands of apps, a look is all.
            if !isReplaced, !isEager, app < old.count, old[app].maySend, plan.apps[app].maySend { continue }
            adopt(app, old: app < old.count ? old[app] : nil, isReplaced: isReplaced, isEager: isEager, &effects)
        }
        endAdoption(&effects)
        effects.append(.log(.reloaded(keepsSessions: replaced?.contains(true) == false)))
        return former
    }

    /// Some apps were added, changed or removed, and the pools have them already.
    ///
    /// - Parameter apps: with their numbers. Those of new apps follow the highest one.
    mutating func changed(_ changes: [(number: Int, app: Settings.App)], _ effects: inout [DispatchEffect]) {
        for (app, new) in changes {
            let old = app < turn.plan.apps.count ? turn.plan.apps[app] : nil
            turn.plan.set(new, at: app, now: turn.wallClock.unixSeconds)
            adopt(app, old: old, isReplaced: true, isEager: false, &effects)
        }
        endAdoption(&effects)
    }

    /// - Parameters:
    ///   - old: the app before; `nil` if it is new.
    ///   - isEager: whether it opens its sessions without jobs, although it did not before.
    private mutating func adopt(
        _ app: Int, old: DispatchPlan.App?, isReplaced: Bool, isEager: Bool, _ effects: inout [DispatchEffect]
    ) {
        let new = turn.plan.apps[app]
        if let old {
            if apps[app].isAsleep { cold += (new.maySend ? 1 : 0) - (old.maySend ? 1 : 0) }
            apps[app].adopted(isReplaced: isReplaced, isOther: new.fingerprint != old.fingerprint, turn)
            performEffects(of: app, &effects)
        } else {
            append(app)
        }
        if !new.maySend {
            apps[app].holdIfFaulty(turn)
            performEffects(of: app, &effects)
            guard old?.maySend ?? false, !apps[app].isAsleep else { return }
            apps[app].poolEnds(now: turn.now)
            effects.append(.finish(app: app))
        } else if !(old?.maySend ?? false) || isEager {
            // Its pool has ended, or it never had one.
            if !apps[app].isAsleep {
                apps[app].wake(isForJobs: true, now: turn.now)
                effects.append(.open(app: app))
            } else if turn.plan.idleTimeout == .zero {
                wake(app, isForJobs: false)
                effects.append(.open(app: app))
            }
        }
    }

    private mutating func endAdoption(_ effects: inout [DispatchEffect]) {
        for list in lists.indices {
            lists[list].adopted(turn.plan)
            campaigns[list].adopted(&turn.plan.reader, turn.plan.routes)
            restoreUnknownAsides(of: list, &effects)
            wakeApps(of: list, &effects)
        }
    }

    mutating func stopSignalReceived(_ effects: inout [DispatchEffect]) {
        let step = shutdown.stopSignalReceived(timeout: turn.plan.drainTimeout, turn.plan.delivery, now: turn.now)
        perform(step, &effects)
    }

    private mutating func perform(_ step: Shutdown.Step?, _ effects: inout [DispatchEffect]) {
        switch step {
        case nil: break
        case .drain:
            effects.append(.log(.draining(inFlight, timeout: turn.plan.drainTimeout)))
            turn.isLeaving = true
            tell(awake, &effects) { app, _ in app.drain() }
        case .leave: effects.append(.log(.leaving(inFlight, turn.plan.delivery)))
        case .closePools(let isForced):
            if isForced { effects.append(.log(.leaving(inFlight, turn.plan.delivery))) }
            effects.append(.closePools)
        case .finish: effects.append(.log(.stopped(counters)))
        case .giveUp: effects.append(.log(.unconfirmed(turn.plan.delivery)))
        }
    }

    /// The pools are closed and their last outcomes have arrived.
    mutating func poolsClosed(_ effects: inout [DispatchEffect]) {
        tell(awake, &effects) { app, _ in app.releaseAll() }
        // A stopping queue would release them itself, and again with a later settlement.
        for list in splits.indices {
            for claim in splits[list].takeWaiting() { _ = place(claim, list: list, &effects) }
        }
        effects.append(.stopQueues)
    }

    // MARK: Questions

    var isStopped: Bool { shutdown.phase == .stopped }
    /// Whether a stop signal has arrived.
    var isLeaving: Bool { turn.isLeaving }
    func isHeld(app: Int) -> Bool { app < apps.count && apps[app].isHeld }
    /// The beginning of a log line about the app.
    func label(of app: Int) -> String { turn.plan.apps[app].label }
    /// The app whose job this is; `nil` if the job is no longer held.
    func app(of id: JobID) -> Int? { apps[id.app].holds(id) ? id.app : nil }

    var inFlight: Int {
        var count = 0
        for app in awake { count += apps[app].count }
        return count
    }

    var counters: Counters {
        var counters = settler.counters
        for app in apps.indices { counters.resent += apps[app].resent }
        return counters
    }

    /// Of `streams`, the notifications that wait in the pool are to be subtracted. The bottleneck is that of an app without a
    /// pool: `BottleneckMeter` finds those of the others.
    var snapshot: ProcessSnapshot {
        ProcessSnapshot(
            isLeaving: isLeaving, inFlight: inFlight, counters: counters,
            apps: apps.indices.map { app in
                var snapshot = apps[app].snapshot(turn)
                snapshot.hasAside = lists.contains { $0.isAside(app: app) }
                return snapshot
            },
            lists: lists.map {
                ProcessSnapshot.List(
                    name: $0.name, isConnected: $0.isConnected, isInDoubt: $0.isInDoubt, pauses: $0.pauses)
            })
    }
}
