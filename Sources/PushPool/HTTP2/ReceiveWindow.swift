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
