/// The window of DATA that the peer may send, and the time to enlarge it.
///
/// Violations of the window are not checked: bytes beyond the few that matter in a response are dropped.
struct ReceiveWindow: Equatable {
    let size: Int
    private var used = 0

    init(size: Int) { self.size = size }

    /// Counts DATA, padding included. Returns the increment for a WINDOW_UPDATE once half of the window is used.
    mutating func take(_ count: Int) -> Int? {
        used += count
        if used < size / 2 { return nil }
        defer { used = 0 }
        return used
    }
}
