/// The send window of the connection, in bytes of DATA (RFC 9113, 5.2).
struct FlowWindow: Equatable {
    /// The largest window that is allowed (RFC 9113, 6.9.1).
    static let most = 0x7FFF_FFFF
    /// The initial window of the connection, and of each stream until SETTINGS change it (RFC 9113, 6.9.2).
    static let initial = Reach.usualWindow

    private(set) var left = FlowWindow.initial
    /// The most bytes that were ever left: the size to which the peer opens the window.
    private(set) var size = FlowWindow.initial

    /// The value of `left` at which the next frame ends.
    private var mark = FlowWindow.initial - FlowWindow.initial / 2

    /// Bytes that the peer has not confirmed.
    var inFlight: Int { size - left }

    /// The most bytes that the next frame may have, at least 1.
    ///
    /// Servers with nghttp2, and others, confirm DATA when they have received half of their window since the last time. A frame
    /// ends where `inFlight` is a multiple of this half: otherwise the bytes behind it wait for more DATA before they are
    /// confirmed, and a round trip carries half a window instead of a whole one.
    var frameRoom: Int { left - mark }

    mutating func spend(_ count: Int) {
        left -= count
        if left <= mark { setMark() }
    }

    private mutating func setMark() {
        let half = size / 2
        mark = size - half * (inFlight / half + 1)
    }

    /// Applies WINDOW_UPDATE. Returns `false` if the window is then too large.
    mutating func grow(by count: Int) -> Bool {
        left += count
        size = max(size, left)
        setMark()
        return left <= Self.most
    }
}
