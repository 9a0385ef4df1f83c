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
