/// What is said to one request.
public struct StatusAnswer: Sendable, Equatable {
    public var status: Int
    public var contentType: String
    public var body: [UInt8]

    public init(status: Int = 200, contentType: String = "text/plain; charset=utf-8", body: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    public init(status: Int = 200, contentType: String = "text/plain; charset=utf-8", text: String) {
        self.init(status: status, contentType: contentType, body: Array(text.utf8))
    }
}

/// How an answer comes about, asked for on the server's thread, which must not wait.
public enum StatusReply: Sendable {
    case now(StatusAnswer)
    /// Some other thread knows: `begin` is called at once, and hands the answer to the closure that it is given, from wherever it
    /// likes. What takes longer than `patience` is answered by `otherwise`.
    case later(
        patience: Duration, begin: @Sendable (_ done: @escaping @Sendable (StatusAnswer) -> Void) -> Void,
        otherwise: @Sendable () -> StatusAnswer)
}

/// Why nobody can be listened to, in the system's own words.
public struct ListenFault: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String
}
