import Platform

/// The campaigns that have tokens, the launches that Redis has not answered, and when to claim tokens.
///
/// As for side lists, only the owner's places allow a claim, one such claim at a time is outstanding beside those from the list,
/// and the campaigns take turns. The reply to a claim says when the next one makes sense.
struct Campaigns {
    private struct Entry {
        /// `nil` until Redis has sent it.
        var campaign: Campaign?
        /// When it began, as Redis writes it. Another campaign may have the name of one that has ended.
        var created = ""
        var isAsked = false
        /// In the sorted set with tokens. Otherwise it is known for tokens that are elsewhere.
        var isActive = false
        var places = 0
        /// A claim before this time finds nothing.
        var next: Instant?
    }

    /// Places of a campaign that are claimed at once. Fewer wait for others.
    private static let fewest = 25
    /// The time after which a campaign is looked at again that was paused, or that had no tokens.
    private static let pause = Duration.milliseconds(500)
    private static let longestWait = Duration.seconds(10)
    /// Milliseconds until the next claim after one that Redis has refused.
    static let refusedWait: Int64 = 10_000
    /// The time between two looks at the sorted set while there are campaigns. Otherwise each beat looks.
    private static let interval = Duration.seconds(1)
    /// Campaigns, also without tokens, of which the daemon remembers the job. Beyond them, only those in use.
    private static let mostKnown = 200

    private var entries: [String: Entry] = [:]
    /// Without an answer. They are sent one by one, so that each can name the last one that Redis must have.
    private var launches: [CampaignLaunch] = []
    /// The number of the launch that awaits its reply, and that of the last one that was sent.
    private var awaited: UInt64?
    private var lastLaunch: UInt64 = 0
    /// Those of campaigns that have begun, until the settlement of the job is confirmed: see `CampaignLaunch.number`.
    private var begun: [CampaignLaunch] = []
    /// Figures that Redis has not confirmed, oldest first, and the number of the last batch whose figures were sent.
    private var figures: [CampaignFigures] = []
    private var sentFigures: UInt64 = 0
    private var offeredAt: Instant?
    private var looksAt: Instant?
    private var isLooking = false
    /// The campaign of the outstanding claim, and that of the last one.
    private(set) var outstanding: String?
    private var last = ""
    private var mayHaveChanged = false
    private let byAddress = ByAddress()

    var isEmpty: Bool { entries.isEmpty && launches.isEmpty }

    // MARK: Connection

    /// - Parameter chunks: the jobs that the worker holds. Another worker has the others, and begins their campaigns.
    mutating func beginServing(holding chunks: Chunks, now: Instant) {
        launches.removeAll { !chunks.contains($0.claim.id) }
        looksAt = now
    }

    /// Launches and figures without a reply are sent again on the next connection, and not on the same one after a doubt: the
    /// producer may have filled the key of the tokens again.
    mutating func connectionLost() {
        (outstanding, isLooking, awaited, sentFigures) = (nil, false, nil, 0)
        for id in entries.keys { entries[id]?.isAsked = false }
    }

    // MARK: Launches

    mutating func launch(_ launch: CampaignLaunch) { launches.append(launch) }

    /// Whether a launch can be sent. `mutating`, because Swift 6.3 copies the whole value for a function that is not.
    var mayLaunch: Bool { mutating get { awaited == nil && !launches.isEmpty } }
    /// Whether settlements may need a launch.
    var hasBegun: Bool { mutating get { !begun.isEmpty } }

    /// The launch to send now.
    mutating func startsLaunch(holding chunks: Chunks) -> CampaignLaunch? {
        if !mayLaunch { return nil }
        launches[0] = numbered(launches[0], holding: chunks)
        awaited = launches[0].number
        return launches[0]
    }

    private mutating func numbered(_ launch: CampaignLaunch, holding chunks: Chunks) -> CampaignLaunch {
        lastLaunch += 1
        var launch = launch
        (launch.number, launch.after) = (lastLaunch, lastBegun(holding: chunks))
        return launch
    }

    /// The number of the last launch that Redis must have; 0 for none.
    mutating func lastBegun(holding chunks: Chunks) -> UInt64 {
        begun.removeAll { !chunks.contains($0.claim.id) }
        return begun.reduce(0) { max($0, $1.number) }
    }

    /// The queue stops, and returns the jobs to the list.
    mutating func withdrawLaunches() { launches = [] }

    /// Redis has answered a launch. Returns what to report; `nil` if it is tried again under another name, was answered before,
    /// or was withdrawn.
    mutating func launched(
        _ launch: CampaignLaunch, _ start: CampaignStart, holding chunks: Chunks, now: Instant
    ) -> QueueEvent? {
        if awaited == launch.number { awaited = nil }
        if case .refused = start { begun.removeAll { $0.number == launch.number } }
        guard let place = launches.firstIndex(where: { $0.number == launch.number }) else { return nil }
        launches.remove(at: place)
        looksAt = now
        if case .begun = start { begun.append(launch) }
        if case .refused(.nameInUse) = start, let next = launch.next {
            self.launch(next)
            return nil
        }
        return .launched(launch.claim, start)
    }

    /// The launches to repeat before the settlements of their jobs.
    mutating func launchesToRepeat(holding chunks: Chunks) -> [CampaignLaunch] {
        let held = begun.filter { chunks.contains($0.claim.id) }
        begun = []
        for launch in held { begun.append(numbered(launch, holding: chunks)) }
        return begun
    }

    // MARK: Knowledge

    /// A beat was sent: without campaigns, the sorted set is looked at with it.
    mutating func beat(now: Instant) { if looksAt == nil { looksAt = now } }

    /// The time of the next look.
    var nextLook: Instant? { isLooking ? nil : looksAt }

    mutating func startsLook(now: Instant) -> Bool {
        guard let nextLook, now >= nextLook else { return false }
        (isLooking, looksAt) = (true, nil)
        return true
    }

    /// Redis has named the campaigns with tokens, each with the time of its beginning. Returns those of which the job is unknown.
    ///
    /// - Parameter chunks: the jobs that the worker holds. It remembers the campaigns of their tokens.
    mutating func learned(_ found: [(id: String, created: String)], holding chunks: Chunks, now: Instant) -> [String] {
        isLooking = false
        let found = Dictionary(found.prefix(Campaign.most).map { ($0.id, $0.created) }) { $1 }
        let ended = entries.keys.filter { found[$0] == nil && entries[$0]?.isActive == true }
        for id in ended {
            entries[id]?.isActive = false
            entries[id]?.places = 0
            mayHaveChanged = true
        }
        for (id, created) in found {
            var entry = entries[id, default: Entry()]
            if entry.isActive && entry.created == created { continue }
            if entry.created != created { entry = Entry(created: created) }
            entry.isActive = true
            entries[id] = entry
            mayHaveChanged = true
        }
        if !ended.isEmpty || entries.count > Campaigns.mostKnown {
            let held = Set(chunks.ids.compactMap { chunks.bytes(of: $0).flatMap(CampaignToken.init)?.campaign })
            entries = entries.filter { $0.value.isActive || held.contains($0.key) }
        }
        if !found.isEmpty { looksAt = now + Campaigns.interval }
        return found.keys.sorted().filter { ask($0) }
    }

    /// The owner has a token of a campaign that it does not know. Returns whether Redis is to be asked for its job.
    mutating func ask(_ id: String) -> Bool {
        let entry = entries[id, default: Entry()]
        if entry.isAsked || entry.campaign != nil { return false }
        entries[id] = entry
        entries[id]?.isAsked = true
        return true
    }

    /// - Parameter campaign: `nil` if there is none with this name.
    mutating func described(_ id: String, _ campaign: Campaign?) -> QueueEvent? {
        entries[id]?.isAsked = false
        guard let campaign else {
            entries[id] = nil
            return .campaignMissing(id)
        }
        entries[id, default: Entry()].campaign = campaign
        mayHaveChanged = true
        return nil
    }

    /// The campaigns whose jobs are known, if they have changed since the last report.
    mutating func change() -> QueueEvent? {
        if !mayHaveChanged { return nil }
        mayHaveChanged = false
        let known = entries.values.compactMap(\.campaign).sorted { $0.id < $1.id }
        let active = Set(entries.filter { $0.value.isActive && $0.value.campaign != nil }.keys)
        return .campaigns(known, active: active)
    }

    /// The known campaigns of these tokens: their hashes are lost with the data of Redis.
    func of(_ elements: [[UInt8]]) -> [Campaign] {
        Set(elements.compactMap { CampaignToken($0)?.campaign }).sorted().compactMap { entries[$0]?.campaign }
    }

    // MARK: Claiming

    mutating func offer(places: Int, id: String, now: Instant) {
        guard entries[id]?.isActive == true else { return }
        entries[id]?.places = max(0, places)
        if places > 0, offeredAt == nil { offeredAt = now }
    }

    /// The campaigns of which Redis has said that the next claim makes sense only later.
    func resting(now: Instant) -> Set<String> {
        var ids: Set<String> = []
        for (id, entry) in entries { if let next = entry.next, next > now { ids.insert(id) } }
        return ids
    }

    mutating func withdrawOffers() {
        for id in entries.keys { entries[id]?.places = 0 }
        offeredAt = nil
    }

    /// The time of the next claim.
    ///
    /// - Parameter count: the jobs that the worker holds.
    func claimsAt(holding count: Int) -> Instant? {
        guard outstanding == nil, let offeredAt else { return nil }
        // Together: many campaigns have small shares.
        let places = entries.values.reduce(0) { $1.next == nil ? $0 + $1.places : $0 }
        var next = Earliest()
        for entry in entries.values where entry.places > 0 && entry.campaign != nil {
            let offered = Claims.claimsAt(entry.places < Campaigns.fewest ? 0 : places, since: offeredAt, holding: count)
            next.consider(entry.next.map { max($0, offered) } ?? offered)
        }
        return next.instant
    }

    /// The claim that is due now.
    mutating func next(now: Instant, holding held: Int) -> (id: String, created: String, count: Int)? {
        guard let claimsAt = claimsAt(holding: held), now >= claimsAt else { return nil }
        let due = entries.filter { $0.value.places > 0 && $0.value.campaign != nil && $0.value.next.map { $0 <= now } ?? true }
        let names = due.keys.sorted()
        guard let id = names.first(where: { $0 > last }) ?? names.first, let entry = due[id] else { return nil }
        (outstanding, last) = (id, id)
        return (id, entry.created, min(entry.places, ChunkEntry.mostJobs))
    }

    /// A claim is complete.
    ///
    /// - Parameter wait: milliseconds until the next claim; negative if it is paused or has no tokens.
    mutating func claimed(_ count: Int, of id: String, wait: Int64, now: Instant) {
        outstanding = nil
        offeredAt = now
        let left = (entries[id]?.places ?? 0) - count
        entries[id]?.places = max(0, left)
        let pause = wait < 0 ? Campaigns.pause : min(.milliseconds(wait), Campaigns.longestWait)
        entries[id]?.next = pause > .zero ? now + pause : nil
        if wait == -2 { looksAt = looksAt.map { min($0, now) } ?? now }
    }

    // MARK: Figures

    mutating func settled(_ sequence: UInt64, _ counts: [CampaignCounts]) {
        figures.append(CampaignFigures(sequence: sequence, counts: counts))
    }

    /// The figures of batches up to this one that this connection has not sent.
    mutating func takeUnsentFigures(through sequence: UInt64) -> [CampaignFigures] {
        if figures.isEmpty { return [] }
        defer { sentFigures = max(sentFigures, sequence) }
        return figures.filter { $0.sequence > sentFigures && $0.sequence <= sequence }
    }

    /// - Parameter isApplied: whether Redis has applied the batch. Otherwise the figures are sent again, behind it.
    mutating func counted(_ sequence: UInt64, isApplied: Bool) {
        if isApplied {
            figures.removeAll { $0.sequence == sequence }
        } else {
            sentFigures = min(sentFigures, sequence - 1)
        }
    }
}
