/// An event of the connection.
enum HTTP2Event: Equatable {
    /// A complete response with status 200; the stream is closed. The id is present only if the codec collects ids.
    case delivered(slot: Int, stream: StreamID, apnsID: String?)
    /// A complete response with another status; the stream is closed.
    case rejected(slot: Int, stream: StreamID, Response)
    /// The stream closed without a complete response. `wasSent`: its HEADERS had left the codec.
    case reset(slot: Int, stream: StreamID, code: UInt32, wasSent: Bool)
    /// SETTINGS arrived; this limit applies now.
    case settings(maxConcurrentStreams: Int)
    case goAway(last: StreamID, code: UInt32, debugData: [UInt8])
    /// The ACK of a PING, with the number of the PING.
    case pingAnswered(UInt64)
}
