/// What the peer's bytes came to, in the order it said it.
enum HTTP2Event: Equatable {
    /// A complete 200, and its stream closed. The id only if the codec collects them.
    case delivered(slot: Int, stream: StreamID, apnsID: String?)
    /// Another complete answer, and its stream closed.
    case rejected(slot: Int, stream: StreamID, Response)
    /// The stream closed without a complete answer. `wasSent`: its HEADERS had left the codec.
    case reset(slot: Int, stream: StreamID, code: UInt32, wasSent: Bool)
    /// SETTINGS, and the MAX_CONCURRENT_STREAMS that is in force now.
    case settings(maxConcurrentStreams: Int)
    case goAway(last: StreamID, code: UInt32, debugData: [UInt8])
    /// A PING's ACK, with the number it was sent with.
    case pingAnswered(UInt64)
}
