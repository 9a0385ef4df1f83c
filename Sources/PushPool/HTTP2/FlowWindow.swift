/// The send window of the connection, in bytes of DATA (RFC 9113, 5.2).
struct FlowWindow: Equatable {
    /// The largest window that is allowed (RFC 9113, 6.9.1).
    static let most = 0x7FFF_FFFF
    /// The initial window of the connection, and of each stream until SETTINGS change it (RFC 9113, 6.9.2).
    static let initial = Reach.usualWindow

    private(set) var left = FlowWindow.initial
    /// The most bytes that were ever left: the size to which the peer opens the window.
    private(set) var size = FlowWindow.initial

    /// Bytes that the peer has not confirmed.
    var inFlight: Int { size - left }

    mutating func spend(_ count: Int) { left -= count }

    /// Applies WINDOW_UPDATE. Returns `false` if the window is then too large.
    mutating func grow(by count: Int) -> Bool {
        left += count
        size = max(size, left)
        return left <= Self.most
    }
}
