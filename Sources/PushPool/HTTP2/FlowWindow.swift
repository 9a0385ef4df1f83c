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

/// What the peer may still send, and when it is told that it may send more.
///
/// Nobody looks whether it sends more than that: what it sends is dropped beyond the few bytes of an answer that matter.
struct ReceiveWindow: Equatable {
    let size: Int
    private var used = 0

    init(size: Int) { self.size = size }

    /// DATA has come, padding included; returns the increment for a WINDOW_UPDATE once half of the window is used up.
    mutating func take(_ count: Int) -> Int? {
        used += count
        if used < size / 2 { return nil }
        defer { used = 0 }
        return used
    }
}
