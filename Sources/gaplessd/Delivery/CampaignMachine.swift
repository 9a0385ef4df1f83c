import RedisQueue

/// The campaigns of one list: their jobs, and how many of their tokens to claim.
struct CampaignMachine {
    /// The places of an app for its campaigns.
    struct Places {
        var free: Int
        /// Whether the list may have jobs of the app, which go first.
        let hasJobs: Bool
        /// The campaigns that share them.
        fileprivate var sharers = 0

        init(free: Int, hasJobs: Bool) { (self.free, self.hasJobs) = (free, hasJobs) }
    }

    /// How many tokens to claim from a campaign, and the app whose places they take from its jobs.
    struct Offer: Equatable {
        let id: String
        var places = 0
        var app: Int?
    }

    private let list: Int
    /// The known campaigns by their ids, and those from which tokens can be claimed.
    private var campaigns: [String: CampaignJob] = [:] { didSet { last = nil } }
    private var active: [String] = []
    /// That of the last token: the tokens of a claim follow each other.
    private var last: CampaignJob?
    /// Campaigns that operators have paused.
    private(set) var paused: Set<String> = []
    /// Campaigns that Redis does not know.
    private var missing: Set<String> = []
    private static let mostMissing = 1000
    /// The tokens that may be claimed while the list has jobs: their share of the jobs that were claimed.
    private var credit = 0.0
    /// Jobs of one claim at most are owed to campaigns.
    private static let mostCredit = 250.0
    /// Places that are left to the list while it is empty, so that an urgent job is claimed at once: at most a quarter.
    private static let reserve = 32

    init(list: Int) { self.list = list }

    /// Whether tokens can be claimed.
    var isActive: Bool { !active.isEmpty }

    mutating func learned(_ known: [Campaign], active: Set<String>, _ reader: inout JobReader, _ routes: AppRoutes) {
        var new: [String: CampaignJob] = [:]
        for campaign in known {
            let job = campaigns[campaign.id].flatMap { $0.campaign == campaign ? $0 : nil }
            new[campaign.id] = job ?? CampaignJob(campaign, list: list, reader: &reader, routes: routes)
            missing.remove(campaign.id)
        }
        campaigns = new
        self.active = active.sorted()
        if active.isEmpty { credit = 0 }
    }

    /// The settings were read again.
    mutating func adopted(_ reader: inout JobReader, _ routes: AppRoutes) {
        campaigns = campaigns.mapValues { CampaignJob($0.campaign, list: list, reader: &reader, routes: routes) }
    }

    // MARK: Tokens

    /// The campaign of a claimed token; `nil` if it is not known.
    mutating func campaign(of element: [UInt8]) -> CampaignJob? {
        if let last, last.owns(element) { return last }
        guard let token = CampaignToken(element) else { return nil }
        last = campaigns[token.campaign]
        return last
    }

    mutating func isMissing(_ campaign: String) {
        if missing.count >= Self.mostMissing { missing.removeAll() }
        missing.insert(campaign)
    }

    /// Whether Redis has no such campaign, so that its tokens cannot be pushed.
    func lacks(_ campaign: String) -> Bool { missing.contains(campaign) }

    // MARK: Pauses

    mutating func paused(_ pauses: [PauseNote]) { paused = Set(pauses.compactMap(\.campaign)) }

    var hasPaused: Bool { !paused.isEmpty }

    /// The side list in which the jobs of this campaign wait while it is paused; `nil` if it is not.
    func aside(of campaign: String?) -> String? {
        guard let campaign, paused.contains(campaign) else { return nil }
        return QueuePause.Scope.campaign(campaign).field
    }

    /// The side lists of the paused campaigns.
    var asides: Set<String> { Set(paused.map { QueuePause.Scope.campaign($0).field }) }

    // MARK: Places

    /// Whether tokens of the app can be claimed, now or after a pause.
    func hasTokens(ofApp app: Int) -> Bool { active.contains { campaigns[$0]?.app == app } }

    /// The apps of the campaigns that are not paused, in the order of these.
    var apps: [Int] { active.compactMap { app(of: $0) } }

    private func app(of campaign: String) -> Int? { paused.contains(campaign) ? nil : campaigns[campaign]?.app }

    mutating func claimed(_ claims: [ClaimedJob], share: Double) {
        if !isActive { return }
        let tokens = claims.count { CampaignToken.begins($0.bytes) }
        let share = min(share, 0.99)
        credit = min(Self.mostCredit, credit + Double(claims.count - tokens) * share / (1 - share))
        credit = max(0, credit - Double(tokens))
    }

    /// Divides the places of apps among their campaigns, evenly.
    ///
    /// - Parameters:
    ///   - resting: the campaigns that cannot use their places yet: the list gets these.
    ///   - places: by app, without apps that claim nothing.
    func offers(resting: Set<String>, of places: [Int: Places]) -> [Offer] {
        var places = places
        for id in active where !resting.contains(id) {
            if let app = app(of: id) { places[app]?.sharers += 1 }
        }
        return active.map { id in
            guard let app = app(of: id), let own = places[app] else { return Offer(id: id) }
            let most = own.hasJobs ? min(own.free, Int(credit + 1e-6)) : own.free - min(own.free / 4, Self.reserve)
            let share = min(campaigns[id]?.places ?? 0, most == 0 ? 0 : max(1, most / max(1, own.sharers)))
            guard own.hasJobs && !resting.contains(id) else { return Offer(id: id, places: share) }
            places[app]?.free -= share
            places[app]?.sharers -= 1
            return Offer(id: id, places: share, app: app)
        }
    }
}
