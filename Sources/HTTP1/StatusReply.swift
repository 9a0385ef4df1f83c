/// The reply to a path. The server asks for it on its own thread, which must not wait.
public enum StatusReply: Sendable {
    case now(StatusResponse)
    /// Another thread knows the response. The server calls `begin` at once; `done` may be called from any thread. If `done` is
    /// not called within `timeout`, the server sends the result of `otherwise`.
    case later(
        timeout: Duration, begin: @Sendable (_ done: @escaping @Sendable (StatusResponse) -> Void) -> Void,
        otherwise: @Sendable () -> StatusResponse)
}
