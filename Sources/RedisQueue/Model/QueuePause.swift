/// A pause that an operator has stored beside a list: no worker claims its jobs, or those of one app.
public struct QueuePause: Sendable, Equatable {
    /// The app; `nil` for the whole list.
    public var app: String?
    /// The time that was left when Redis replied; `nil` for a pause without an end.
    public var left: Duration?
    /// A JSON object: `until` (milliseconds since 1970, 0: no end), `since`, `reason` and `by`.
    public var record: [UInt8]

    public init(app: String?, left: Duration? = nil, record: [UInt8]) {
        (self.app, self.left, self.record) = (app, left, record)
    }

    /// Whether both are the same pause at different times.
    func isSame(as other: QueuePause) -> Bool { app == other.app && record == other.record }

    /// The field of the whole list. No app has this name.
    static let wholeList = ""

    /// Reads the flat array of the scripts: field, milliseconds that are left (-1: no end) and record of each pause, sorted by
    /// app. `nil` for another form.
    static func read(_ items: ArraySlice<RedisReply>) -> [QueuePause]? {
        var pauses: [QueuePause] = []
        var rest = items
        while let field = rest.popFirst() {
            guard let field = field.text, let left = rest.popFirst()?.integer, let record = rest.popFirst()?.bytes else {
                return nil
            }
            if left == sideList { continue }
            pauses.append(
                QueuePause(
                    app: field == wholeList ? nil : field, left: left < 0 ? nil : .milliseconds(min(left, 1 << 52)),
                    record: record))
        }
        return pauses.sorted { ($0.app ?? "") < ($1.app ?? "") }
    }

    /// In the flat array, the number in place of the time that is left that marks a side list: app, this number and the number of
    /// its jobs.
    private static let sideList: Int64 = -2

    /// Returns the numbers of jobs in the side lists that an item of `split` names, by app.
    static func sideLists(_ item: RedisReply) -> [String: Int] {
        var rest = item.items?.dropFirst() ?? []
        var lists: [String: Int] = [:]
        while let app = rest.popFirst()?.text, let mark = rest.popFirst()?.integer, let count = rest.popFirst()?.text {
            if mark == sideList { lists[app] = max(0, Int(count) ?? 0) }
        }
        return lists
    }

    /// Reads an item that is a number, or while something is paused an array of the number and the pauses.
    static func split(_ item: RedisReply) -> (number: Int64, pauses: [QueuePause])? {
        if let number = item.integer { return (number, []) }
        guard let items = item.items, let number = items.first?.integer, let pauses = read(items.dropFirst()) else { return nil }
        return (number, pauses)
    }
}
