/// The events that are reported only when something has changed.
struct Notices {
    private var alarm = RecordAlarm()
    private var missing: Set<MissingFeature> = []
    private var lastState: QueueEvent?
    /// The pauses that Redis replied last.
    private(set) var pauses: [QueuePause] = []

    /// The connection does not serve. A state is reported once, not with every attempt.
    mutating func disconnected(_ event: QueueEvent) -> QueueEvent? {
        if event == lastState { return nil }
        lastState = event
        return event
    }

    mutating func connected() { lastState = nil }

    /// A substitute is in use: reported once, not at every reconnect.
    mutating func limited(_ feature: MissingFeature) -> QueueEvent? { missing.insert(feature).inserted ? .limited(feature) : nil }

    mutating func learned(_ new: [QueuePause]) -> QueueEvent? {
        if new.isEmpty && pauses.isEmpty { return nil }
        defer { pauses = new }
        return new.elementsEqual(pauses) { $0.isSame(as: $1) } ? nil : .paused(new)
    }

    /// Records were added to a list.
    mutating func grew(_ records: RecordList, _ growth: ScriptReply.Growth) -> [QueueEvent] {
        let trimmed = growth.trimmed > 0 ? [QueueEvent.recordsTrimmed(records, growth.trimmed)] : []
        return trimmed + [counted(records, growth.length)].compactMap(\.self)
    }

    mutating func counted(_ records: RecordList, _ count: Int) -> QueueEvent? {
        alarm.isWorthReporting(records, count: count) ? .recordsMany(records, count) : nil
    }
}
