/// What we may still send on the connection, in bytes of DATA (RFC 9113, 5.2).
struct FlowWindow: Equatable {
    /// No window may grow beyond this (RFC 9113, 6.9.1).
    static let most = 0x7FFF_FFFF
    /// Of the connection, and of each stream until SETTINGS say otherwise (RFC 9113, 6.9.2).
    static let initial = 65_535

    private(set) var left = FlowWindow.initial

    mutating func spend(_ count: Int) { left -= count }

    /// WINDOW_UPDATE; `false` if the window would be too large.
    mutating func grow(by count: Int) -> Bool {
        left += count
        return left <= Self.most
    }
}
