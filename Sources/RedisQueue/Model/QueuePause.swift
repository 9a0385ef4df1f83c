/// A pause that an operator has stored beside a list: no worker claims its jobs, or those of one app or campaign.
///
/// `PauseReading.swift` has the Lua and the readers of its replies; `QueueMachine.learned` applies the pauses.
public struct QueuePause: Sendable, Equatable {
    /// What is paused. The text is a field of the hash of pauses.
    public enum Scope: Sendable, Hashable {
        case list
        case app(String)
        case campaign(String)

        /// In front of the name of a campaign.
        private static let mark = "campaign:"

        public init(field: String) {
            if field.isEmpty {
                self = .list
            } else if field.hasPrefix(Scope.mark) {
                self = .campaign(String(field.dropFirst(Scope.mark.count)))
            } else {
                self = .app(field)
            }
        }

        /// No app has the empty name.
        public var field: String {
            switch self {
            case .list: ""
            case .app(let name): name
            case .campaign(let name): Scope.mark + name
            }
        }
    }

    public var scope: Scope
    /// The time that was left when Redis replied; `nil` for a pause without an end.
    public var left: Duration?
    /// A JSON object: `until` (milliseconds since 1970, 0: no end), `since`, `reason` and `by`.
    public var record: [UInt8]

    public init(_ scope: Scope, left: Duration? = nil, record: [UInt8]) {
        (self.scope, self.left, self.record) = (scope, left, record)
    }

    /// Whether nothing of the list is claimed.
    public var isOfList: Bool { scope == .list }

    /// Whether both are the same pause at different times.
    func isSame(as other: QueuePause) -> Bool { scope == other.scope && record == other.record }
}
