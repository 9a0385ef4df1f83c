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
