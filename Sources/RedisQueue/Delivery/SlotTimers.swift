import Platform

/// The slots of apps: when one of them has something to do, and when to claim from them.
///
/// As for side lists, only the owner's places for an app allow a claim, and one claim at a time is outstanding.
struct SlotTimers {
    /// Redis' clock is read in whole milliseconds.
    private static let longestDelay = Duration.seconds(3600)

    /// The apps with slots, and the next time at which one of them has something to do.
    private var due: [String: Instant] = [:]
    private var reported: [String] = []
    private var places: [String: Int] = [:]
    /// The app of the outstanding claim, and that of the last one: the apps take turns.
    private(set) var outstanding: String?
    private var last = ""
    /// At a stop, the jobs that wait return to the list.
    private var isReturned = false
    private(set) var isReturning = false

    // MARK: Facts

    /// Redis has named the apps with slots.
    mutating func learned(_ delays: [String: Duration], now: Instant) {
        if delays.isEmpty && due.isEmpty { return }
        due = delays.mapValues { now + min($0, Self.longestDelay) }
        for app in places.keys where due[app] == nil { places[app] = nil }
    }

    mutating func learned(_ next: Lua.NextDue, app: String, now: Instant) {
        switch next {
        case .unknown: break
        case .never: due[app] = nil
        case .after(let delay): due[app] = now + min(delay, Self.longestDelay)
        }
    }

    mutating func offer(places new: Int, app: String) { places[app] = new > 0 && due[app] != nil ? new : nil }

    mutating func withdrawOffers() { places = [:] }

    mutating func connectionLost() { (outstanding, isReturning) = (nil, false) }

    /// A claim is complete.
    mutating func claimed(_ count: Int, of app: String, _ next: Lua.NextDue, now: Instant) {
        outstanding = nil
        if let left = places[app] { places[app] = left > count ? left - count : nil }
        learned(next, app: app, now: now)
    }

    // MARK: Claiming

    /// The time of the next claim.
    var claimsAt: Instant? {
        guard outstanding == nil, !places.isEmpty else { return nil }
        var next = Earliest()
        for app in places.keys { next.consider(due[app]) }
        return next.instant
    }

    /// The claim that is due now.
    mutating func next(now: Instant) -> (app: String, count: Int)? {
        guard outstanding == nil else { return nil }
        let names = places.keys.filter { due[$0].map { $0 <= now } ?? false }.sorted()
        guard let app = names.first(where: { $0 > last }) ?? names.first, let count = places[app] else { return nil }
        (outstanding, last) = (app, app)
        return (app, min(count, ChunkEntry.mostJobs))
    }

    // MARK: Returning

    /// Whether the jobs that wait are to be returned to the list now.
    mutating func startsReturn() -> Bool {
        if isReturning || isReturned || due.isEmpty { return false }
        isReturning = true
        return true
    }

    /// - Parameter left: the number of jobs that are left; negative if they stay, because other workers know slots.
    mutating func returned(left: Int64) {
        isReturning = false
        isReturned = left <= 0
    }

    /// The apps with slots, if they have changed since the last report.
    mutating func change() -> [String]? {
        if due.isEmpty && reported.isEmpty { return nil }
        let apps = due.keys.sorted()
        if apps == reported { return nil }
        reported = apps
        return apps
    }
}
