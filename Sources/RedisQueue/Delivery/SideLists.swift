import Platform

/// The side lists of apps whose jobs the other apps pass: the lists that have jobs, and when to claim from them.
///
/// Only the owner's places for an app allow a claim from its side list, so that an app that cannot send costs nothing. One such
/// claim at a time is outstanding, beside the claims from Q.
struct SideLists {
    private static let longestDelay = Duration.milliseconds(2)
    /// Places that are claimed at once. Fewer wait for others.
    private static let enough = 25

    /// The apps whose side lists have jobs, as far as is known.
    private(set) var apps: Set<String> = [] { didSet { mayHaveChanged = true } }
    private var mayHaveChanged = false
    private var reported: Set<String> = []
    /// Without places there is no time for a claim.
    private var places: [String: Int] = [:] { didSet { if places.isEmpty { offeredAt = nil } } }
    private var offeredAt: Instant?
    /// The app of the outstanding claim, and that of the last one: the apps take turns.
    private(set) var outstanding: String?
    private var last = ""
    /// A claim has brought jobs, and the owner has not responded since.
    var isFresh = false
    /// Side lists that return to Q.
    private var returning: [String] = []
    private(set) var isReturning = false
    /// A stop has begun to return all of them.
    private var isReturningAll = false

    // MARK: Facts

    /// The owner sets a job aside.
    mutating func setAside(_ app: String) { if apps.insert(app).inserted { places[app] = nil } }

    /// Redis has named the side lists with jobs.
    ///
    /// - Parameter unconfirmed: the apps of settlements that this reply may not include.
    mutating func learned(_ names: Set<String>, unconfirmed: @autoclosure () -> Set<String>) {
        if names.isEmpty && apps.isEmpty { return }
        apps = names.union(unconfirmed())
        for app in places.keys where !apps.contains(app) { places[app] = nil }
    }

    mutating func offer(places new: Int, app: String, now: Instant) {
        places[app] = new > 0 && apps.contains(app) ? new : nil
        if places.isEmpty { offeredAt = nil } else if offeredAt == nil { offeredAt = now }
    }

    mutating func withdrawOffers() { (places, offeredAt) = ([:], nil) }

    mutating func connectionLost() { (outstanding, isReturning) = (nil, false) }

    /// A claim is complete.
    ///
    /// - Parameters:
    ///   - isEmptied: whether the side list has no more jobs.
    ///   - unconfirmed: as in `learned`.
    mutating func claimed(
        _ count: Int, of app: String, isEmptied: Bool, unconfirmed: @autoclosure () -> Set<String>, now: Instant
    ) {
        outstanding = nil
        isFresh = count > 0
        if let left = places[app] { places[app] = left > count && count > 0 ? left - count : nil }
        offeredAt = places.isEmpty ? nil : now
        if isEmptied && !unconfirmed().contains(app) { emptied(app) }
    }

    private mutating func emptied(_ app: String) {
        apps.remove(app)
        places[app] = nil
        if places.isEmpty { offeredAt = nil }
    }

    // MARK: Claiming

    /// The time of the next claim.
    var claimsAt: Instant? {
        guard outstanding == nil, !places.isEmpty, let offeredAt else { return nil }
        return places.values.contains { $0 >= Self.enough } ? offeredAt : offeredAt + Self.longestDelay
    }

    /// The claim that is due now.
    mutating func next(now: Instant) -> (app: String, count: Int)? {
        guard let claimsAt, now >= claimsAt else { return nil }
        let names = places.keys.sorted()
        guard let app = names.first(where: { $0 > last }) ?? names.first, let count = places[app] else { return nil }
        (outstanding, last, offeredAt) = (app, app, nil)
        return (app, min(count, ChunkEntry.mostJobs))
    }

    // MARK: Returning

    /// The jobs of the side list of this app go back to Q.
    mutating func restore(_ app: String) {
        if apps.contains(app) && !returning.contains(app) { returning.append(app) }
    }

    /// At a stop, the last worker returns all side lists, so that an older version finds their jobs.
    mutating func returnAll() {
        if !isReturningAll { for app in apps { restore(app) } }
        isReturningAll = true
    }

    /// The other workers for which the side lists were to stay have stopped, too.
    mutating func returnAllAgain() { isReturningAll = false }

    /// The app whose side list is to be returned next; `nil` while such a call is outstanding.
    mutating func nextReturn() -> String? {
        guard !isReturning, let app = returning.last else { return nil }
        isReturning = true
        return app
    }

    /// - Parameter left: the number of jobs left in the side list; negative if it stays, because other workers claim from it.
    mutating func restored(_ app: String, left: Int64) {
        isReturning = false
        if left == 0 { emptied(app) }
        if left <= 0 { returning.removeAll { $0 == app } }
    }

    /// The known side lists, if they have changed since the last report.
    mutating func change() -> [String]? {
        if !mayHaveChanged { return nil }
        mayHaveChanged = false
        if apps == reported { return nil }
        reported = apps
        return apps.sorted()
    }
}

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
