/// What HTTP/2 needs of one request for as long as its stream is open. Slots are used again and again.
struct StreamSlot {
    /// 0 while the slot is free.
    var stream: StreamID = 0
    /// Where its HEADERS begin in the connection's output; `.max` while they are not there.
    var headersAt = UInt64.max
    /// What the peer's WINDOW_UPDATEs have added to the stream's send window, less the DATA sent.
    var credit = 0
    /// What of its body waits for a window.
    var unsent: UnsentBody?
    var window = ReceiveWindow(size: FlowWindow.initial)
    var response: IncomingResponse

    /// Whether its HEADERS have gone into the connection's output, from which nothing is taken back.
    var isSent: Bool { headersAt != .max }
}
