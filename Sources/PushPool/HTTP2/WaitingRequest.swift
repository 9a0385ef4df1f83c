/// A request that waits for the peer's limit or the connection's window.
struct WaitingRequest {
    let notification: Notification
    let stream: StreamID
    let slot: Int
}
