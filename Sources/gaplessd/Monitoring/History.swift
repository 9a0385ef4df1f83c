import Platform
import RedisQueue

/// The figures of the last hour for the charts of the status page: one point for each ten seconds, in some hundred kilobytes at
/// most.
struct History: Sendable {
    static let interval = Duration.seconds(10)
    static let most = 360
    /// Kinds of responses that have a series of their own; more count as `others`.
    private static let mostKinds = 12

    /// Values of ten seconds each, the latest last. `nan` stands for an unknown value.
    typealias Series = [Float]

    struct List: Sendable {
        var name: String
        /// Pushes per second of all workers.
        var sent: Series
        var backlog: Series
        /// Seconds.
        var age: Series
        fileprivate var lastSent: Double?
    }

    private(set) var lists: [List]
    /// Seconds from the claim to the response, of this process.
    private(set) var median: Series = []
    private(set) var slowest: Series = []
    /// Responses per second by kind, of this process. Kinds beyond the first are in `others`.
    private(set) var responses: [(kind: ResponseKind, series: Series)] = []
    private(set) var others: Series = []
    /// The latencies of each app with responses within the last interval that is complete, by its label.
    private(set) var recent: [String: LatencyHistogram] = [:]
    /// The number of points.
    private(set) var count = 0
    private var due: Instant?
    private var before: (at: Instant, apps: [String: ResponseFigures])?

    init(lists: [String]) { self.lists = lists.map { List(name: $0, sent: [], backlog: [], age: []) } }

    /// Takes a reading, and the latest notice of the dispatcher.
    mutating func observe(_ reading: RedisReading, _ snapshot: ProcessSnapshot?, now: Instant) {
        guard let due else {
            self.due = now + Self.interval
            return begin(reading, snapshot, now: now)
        }
        guard due <= now else { return }
        // After a pause of the process, missing points are unknown.
        let missed = min(Self.most, Int((now - due) / Self.interval))
        for _ in 0..<missed { append(nil, nil, seconds: 1) }
        self.due = due + Self.interval * (missed + 1)
        let seconds = before.map { (now - $0.at) / .seconds(1) } ?? 0
        append(reading, snapshot, seconds: seconds)
        begin(reading, snapshot, now: now)
    }

    private mutating func begin(_ reading: RedisReading, _ snapshot: ProcessSnapshot?, now: Instant) {
        before = (now, figures(of: snapshot))
        for index in lists.indices {
            lists[index].lastSent = reading.lists.first { $0.name == lists[index].name }.map(Self.sent)
        }
    }

    private func figures(of snapshot: ProcessSnapshot?) -> [String: ResponseFigures] {
        guard let apps = snapshot?.apps else { return before?.apps ?? [:] }
        return Dictionary(apps.map { ($0.label, $0.responses) }) { first, _ in first }
    }

    private static func sent(_ list: RedisReading.List) -> Double { Double(list.status.counters[.sent, default: 0]) }

    // MARK: One point

    private mutating func append(_ reading: RedisReading?, _ snapshot: ProcessSnapshot?, seconds: Double) {
        count = min(Self.most, count + 1)
        for index in lists.indices { append(reading?.lists.first { $0.name == lists[index].name }, to: index, seconds: seconds) }
        appendProcess(snapshot, seconds: seconds)
    }

    private mutating func append(_ list: RedisReading.List?, to index: Int, seconds: Double) {
        let sent = list.flatMap { list in
            lists[index].lastSent.map { max(0, Self.sent(list) - $0) / max(seconds, 0.001) }
        }
        Self.push(sent, to: &lists[index].sent)
        Self.push(list.map { Double($0.status.backlog) }, to: &lists[index].backlog)
        Self.push(list?.age.map { $0 / .seconds(1) }, to: &lists[index].age)
    }

    private mutating func appendProcess(_ snapshot: ProcessSnapshot?, seconds: Double) {
        var all = LatencyHistogram()
        var counts: [ResponseKind: Int] = [:]
        recent = [:]
        for app in snapshot?.apps ?? [] {
            let old = before?.apps[app.label] ?? ResponseFigures()
            let latencies = app.responses.total.since(old.total)
            all.add(latencies)
            if latencies.total > 0 { recent[app.label] = latencies }
            let known = Dictionary(old.kinds.map { ($0.kind, $0.count) }) { $1 }
            for (kind, count) in app.responses.kinds { counts[kind, default: 0] += count - known[kind, default: 0] }
        }
        Self.push(all.quantile(0.5), to: &median)
        Self.push(all.quantile(0.99), to: &slowest)
        for kind in counts.keys.sorted() where !responses.contains(where: { $0.kind == kind }) && responses.count < Self.mostKinds
        {
            responses.append((kind, Series(repeating: 0, count: max(0, count - 1))))
        }
        for index in responses.indices {
            let number = counts.removeValue(forKey: responses[index].kind) ?? 0
            Self.push(snapshot == nil ? nil : Double(number) / max(seconds, 0.001), to: &responses[index].series)
        }
        let rest = counts.values.reduce(0, +)
        Self.push(snapshot == nil ? nil : Double(rest) / max(seconds, 0.001), to: &others)
        // A kind that has not occurred for an hour makes room for another.
        responses.removeAll { $0.series.allSatisfy { !($0 > 0) } }
    }

    private static func push(_ value: Double?, to series: inout Series) {
        series.append(value.map(Float.init) ?? .nan)
        if series.count > most { series.removeFirst(series.count - most) }
    }
}
