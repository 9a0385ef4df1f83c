/// How an answer comes about, asked for on the server's thread, which must not wait.
public enum StatusReply: Sendable {
    case now(StatusResponse)
    /// Some other thread knows: `begin` is called at once, and hands the answer to the closure that it is given, from wherever it
    /// likes. What takes longer than `patience` is answered by `otherwise`.
    case later(
        patience: Duration, begin: @Sendable (_ done: @escaping @Sendable (StatusResponse) -> Void) -> Void,
        otherwise: @Sendable () -> StatusResponse)
}
