/// The work that a session can take now.
struct Room: Equatable {
    /// Streams that it can open.
    var streams: Int
    /// Bytes of payload that the send windows and TLS admit. The last push may exceed them: the rest of its body waits in the
    /// session, so that the window is used up.
    var bytes = Int.max

    /// The limit of the bytes, or of the streams while it is `streams`.
    var limit = Limitation.streams
    /// The send window of the session, and the part of it that the peer has not confirmed.
    var window = 0
    var bytesInFlight = 0

    /// The limit of this session once it is empty.
    var presentLimit: Limitation { streams <= 0 ? .streams : bytes <= 0 && limit == .streams ? .window : limit }

    var isEmpty: Bool { streams <= 0 || bytes <= 0 }

    /// Counts one push.
    mutating func spend(payload: Int) {
        streams -= 1
        bytes -= payload
    }
}
