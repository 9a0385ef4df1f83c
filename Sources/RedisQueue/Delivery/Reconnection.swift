import Platform

/// The pauses between dials: 50 ms, doubling to 2 s, or to 5 s after an error of the server. Each is between half of it and the
/// whole, so that the workers of a Redis that returns do not all dial at once. They grow until a claim works.
struct Reconnection {
    static let longestPause = Duration.seconds(2)
    private static let shortestPause = Duration.milliseconds(50)
    /// The pause after a refusal, which only an operator can end.
    private static let refusalPause = Duration.seconds(5)
    /// The number of redirections in a row after which the dials pause.
    private static let mostRedirects = 3

    private(set) var dialsAt: Instant
    private var failures = 0
    private var redirects = 0
    private var state: UInt64

    /// - Parameter seed: any number; equal seeds give equal pauses.
    init(seed: UInt64, now: Instant) {
        state = seed | 1
        dialsAt = now
    }

    /// Whether at most one dial or connection has failed, or was refused, since the last claim that worked.
    var isFirstDial: Bool { failures <= 1 }

    mutating func succeeded() { (failures, redirects) = (0, 0) }

    /// - Parameter isError: whether the server has replied an error to a call that served. Then the dials pause longer.
    mutating func failed(isError: Bool = false, now: Instant) {
        dialsAt = now + nextPause(isError ? Reconnection.refusalPause : Reconnection.longestPause)
    }

    mutating func refused(now: Instant) {
        failures += 1
        dialsAt = now + Reconnection.refusalPause
    }

    /// Another node of the cluster is dialled at once, unless the nodes keep pointing at each other.
    ///
    /// - Returns: whether they do.
    mutating func redirected(now: Instant) -> Bool {
        redirects += 1
        let isEndless = redirects > Reconnection.mostRedirects
        if isEndless { failed(now: now) } else { dialsAt = now }
        return isEndless
    }

    private mutating func nextPause(_ longest: Duration) -> Duration {
        let whole = min(longest, Reconnection.shortestPause * (1 << min(failures, 7)))
        failures += 1
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return whole / 2 + whole * Int(state % 1024) / 2048
    }
}

/// The events that are reported only when something has changed.
struct Notices {
    private var alarm = RecordAlarm()
    private var missing: Set<MissingFeature> = []
    /// The last disconnection since a claim worked.
    private var lastState: QueueEvent?
    private var isServing = false
    /// The connection broke before a claim worked, for a reason that was reported: not worth another line.
    private var isRepeating = false
    /// The pauses that Redis replied last.
    private(set) var pauses: [QueuePause] = []

    /// Reports a disconnection once for each reason, and not at every attempt.
    ///
    /// - Parameter isRefused: whether the server has replied an error to a call that served.
    mutating func disconnected(_ event: QueueEvent, isRefused: Bool = false) -> QueueEvent? {
        let isNew = event != lastState
        isRepeating = isRepeating || isServing && (isRefused || !isNew)
        defer { (lastState, isServing) = (event, false) }
        return isNew ? event : isServing ? .interrupted : nil
    }

    mutating func connected(_ warnings: [String]) -> QueueEvent {
        isServing = true
        return isRepeating && warnings.isEmpty ? .resumed : .connected(warnings: warnings)
    }

    /// A claim, or where nothing is claimed a wait or beat, has worked.
    mutating func worked() -> QueueEvent? {
        defer { (lastState, isRepeating) = (nil, false) }
        return isRepeating ? .connected(warnings: []) : nil
    }

    /// A substitute is in use: reported once, not at every reconnect.
    mutating func limited(_ feature: MissingFeature) -> QueueEvent? { missing.insert(feature).inserted ? .limited(feature) : nil }

    mutating func learned(_ new: [QueuePause]) -> QueueEvent? {
        if new.isEmpty && pauses.isEmpty { return nil }
        defer { pauses = new }
        return new.elementsEqual(pauses) { $0.isSame(as: $1) } ? nil : .paused(new)
    }

    /// Records were added to a list.
    mutating func grew(_ records: RecordList, _ growth: SettleBatch.Growth) -> [QueueEvent] {
        if growth.trimmed == 0 && growth.length == 0 { return [] }
        let trimmed = growth.trimmed > 0 ? [QueueEvent.recordsTrimmed(records, growth.trimmed)] : []
        return trimmed + [counted(records, growth.length)].compactMap(\.self)
    }

    mutating func counted(_ records: RecordList, _ count: Int) -> QueueEvent? {
        alarm.isWorthReporting(records, count: count) ? .recordsMany(records, count) : nil
    }
}

/// Warns at every multiple of a number of records, where no maximum is set.
struct RecordAlarm {
    private var next: [RecordList: Int] = [:]

    /// Whether this number of records is to be reported.
    mutating func isWorthReporting(_ records: RecordList, count: Int) -> Bool {
        guard count > 0 else { return false }
        defer { next[records] = (count / records.step + 1) * records.step }
        return count >= next[records, default: records.step]
    }
}
