import JSONBytes
import PushPool

/// The order of apps in every view: those with problems first, then the busiest. Apps with the same rank keep their order.
struct AppRank: Comparable {
    /// What an operator should look at, least urgent first.
    enum Concern: Int, Comparable, CaseIterable {
        case none, limited, paused, noSession, held

        static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }

    var concern: Concern
    /// The binary order of magnitude of the app's load: the order of a view does not change with each push.
    private var magnitude: Int

    /// - Parameter load: jobs in hand or in side lists, or streams in use.
    init(_ concern: Concern, load: Int) {
        self.concern = concern
        magnitude = load <= 0 ? 0 : Int.bitWidth - load.leadingZeroBitCount
    }

    static func < (left: Self, right: Self) -> Bool {
        (left.concern, left.magnitude) < (right.concern, right.magnitude)
    }
}

/// The apps that a view shows, and the numbers of all.
struct AppOverview: Equatable {
    /// Apps of a worker's record in Redis, and so of `status` and `top`: about 12 KiB.
    static let mostReported = 50
    /// Apps of `/status.json`, and so of the page: about 30 KiB.
    static let mostOnPage = 100

    /// The places of the shown apps, in the order of the view.
    private(set) var shown: [Int]
    /// The number of apps.
    let total: Int
    private var counts = [Int](repeating: 0, count: AppRank.Concern.allCases.count)

    /// - Parameter most: the longest view.
    init(_ ranks: [AppRank], most: Int) {
        total = ranks.count
        for rank in ranks { counts[rank.concern.rawValue] += 1 }
        let sorted = ranks.indices.sorted { (ranks[$1], $0) < (ranks[$0], $1) }
        shown = Array(sorted.prefix(most))
    }

    /// The number of apps with a concern.
    func count(_ concern: AppRank.Concern) -> Int { counts[concern.rawValue] }

    var hidden: Int { total - shown.count }

    /// The numbers of all apps.
    var object: JSONValue {
        .members([
            "total": .integer(total), "held": .integer(count(.held)), "paused": .integer(count(.paused)),
            "no_session": .integer(count(.noSession)), "limited": .integer(count(.limited)),
        ])
    }
}

extension ProcessSnapshot.App {
    /// - Parameter backlog: its jobs in side lists.
    func rank(backlog: Int = 0) -> AppRank { AppRank(concern, load: max(held, backlog)) }

    var concern: AppRank.Concern {
        if hold != nil { return .held }
        if isPaused { return .paused }
        if capacity == 0 && !isIdle { return .noSession }
        return bottleneck.isQuiet ? .none : .limited
    }
}

/// Chooses the apps that have a label of their own in the metrics, at most `most`. All others count together under `other`.
///
/// An app that APNs has answered more often, or that has a problem, displaces a quieter one. A counter of `other` never falls: it
/// counts what an app does while it has no label.
struct AppLabels: Sendable {
    static let most = 50
    static let other = "other"

    /// The figures of an app that only grow.
    struct Totals: Sendable, Equatable {
        var responses = ResponseFigures()
        var blocked = [Duration](repeating: .zero, count: Limitation.allCases.count)

        init() {}

        init(_ app: ProcessSnapshot.App) {
            responses = app.responses
            blocked = Limitation.allCases.map(app.figures.blocked)
        }

        /// Adds the growth of an app. An app that began again counts from zero.
        fileprivate mutating func add(_ now: Totals, since before: Totals) {
            let old = now.responses.count < before.responses.count ? Totals() : before
            responses.add(now.responses, since: old.responses)
            for index in blocked.indices { blocked[index] += max(.zero, now.blocked[index] - old.blocked[index]) }
        }
    }

    /// The apps of one scrape.
    struct Choice {
        /// Those with a label of their own.
        var shown: [ProcessSnapshot.App]
        var others: [ProcessSnapshot.App]
        /// Of all apps without a label.
        var otherTotals: Totals
    }

    private var labelled: Set<String> = []
    /// The totals of the apps without a label at the last scrape.
    private var seen: [String: Totals] = [:]
    private var otherTotals = Totals()

    mutating func choose(among apps: [ProcessSnapshot.App]) -> Choice {
        if apps.count <= Self.most {
            self = AppLabels()
            return Choice(shown: apps, others: [], otherTotals: Totals())
        }
        var isShown = [Bool](repeating: false, count: apps.count)
        for index in indicesOfShown(apps) { isShown[index] = true }
        var choice = Choice(shown: [], others: [], otherTotals: Totals())
        let before = seen
        seen = [:]
        for (index, app) in apps.enumerated() {
            if isShown[index] {
                choice.shown.append(app)
                continue
            }
            choice.others.append(app)
            let totals = Totals(app)
            // What it counted under its own label stays there.
            otherTotals.add(totals, since: before[app.label] ?? (labelled.contains(app.label) ? totals : Totals()))
            seen[app.label] = totals
        }
        labelled = Set(choice.shown.map(\.label))
        choice.otherTotals = otherTotals
        return choice
    }

    private func indicesOfShown(_ apps: [ProcessSnapshot.App]) -> ArraySlice<Int> {
        // A label is worth twice the responses: two apps of the same load do not take turns.
        let scores = apps.enumerated().map { index, app in
            let hasLabel = labelled.contains(app.label)
            let load = app.responses.count + app.held
            return (app.concern > .paused ? 1 : 0, (hasLabel ? 2 : 1) * load + (hasLabel ? 1 : 0), -index)
        }
        // An app of the name `other` would be a second metric of this label.
        return apps.indices.filter { apps[$0].label != Self.other }.sorted { scores[$0] > scores[$1] }.prefix(Self.most)
    }
}
