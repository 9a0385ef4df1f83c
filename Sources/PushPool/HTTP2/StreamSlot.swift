/// The state of one request while its stream is open. Slots are reused.
struct StreamSlot {
    /// 0 while the slot is free.
    var stream: StreamID = 0
    /// The place of its HEADERS in the connection's output; `.max` before they are there.
    var headersAt = UInt64.max
    /// The peer's WINDOW_UPDATEs of this stream minus the DATA sent.
    var credit = 0
    /// The part of its body that waits for a window.
    var unsent: UnsentBody?
    var window = ReceiveWindow(size: FlowWindow.initial)
    var response: IncomingResponse

    /// Whether its HEADERS are in the connection's output, from which nothing is removed.
    var isSent: Bool { headersAt != .max }
}
