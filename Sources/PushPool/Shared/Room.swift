/// The work that a session can take now.
struct Room: Equatable {
    /// Streams that it can open.
    var streams: Int
    /// Bytes of payload that the send windows and TLS admit. The last push may exceed them: the rest of its body waits in the
    /// session, so that the window is used up.
    var bytes = Int.max

    var isEmpty: Bool { streams <= 0 || bytes <= 0 }

    /// Counts one push.
    mutating func spend(payload: Int) {
        streams -= 1
        bytes -= payload
    }
}
