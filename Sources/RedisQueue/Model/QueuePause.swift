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
            pauses.append(
                QueuePause(
                    app: field == wholeList ? nil : field, left: left < 0 ? nil : .milliseconds(min(left, 1 << 52)),
                    record: record))
        }
        return pauses.sorted { ($0.app ?? "") < ($1.app ?? "") }
    }

    /// Reads an item that is a number, or while something is paused an array of the number and the pauses.
    static func split(_ item: RedisReply) -> (number: Int64, pauses: [QueuePause])? {
        if let number = item.integer { return (number, []) }
        guard let items = item.items, let number = items.first?.integer, let pauses = read(items.dropFirst()) else { return nil }
        return (number, pauses)
    }
}
