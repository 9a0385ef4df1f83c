/// The values of `log_level`, from the least to the most severe.
enum LogLevel: Int, Sendable, Comparable, CaseIterable {
    case debug, info, warning, error

    var name: String { "\(self)" }

    static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

extension LogLevel {
    var letter: String { name.prefix(1).uppercased() }

    /// The number in syslog(3).
    var priority: Int {
        switch self {
        case .debug: 7
        case .info: 6
        case .warning: 4
        case .error: 3
        }
    }
}
