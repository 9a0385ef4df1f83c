/// A request that the peer's limit or the connection's window does not admit yet.
struct WaitingRequest {
    let notification: Notification
    let stream: StreamID
    let slot: Int
}
