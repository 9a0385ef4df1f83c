/// The part of a request that the content depends on.
public struct StatusRequest: Sendable, Equatable {
    public var method: String
    /// Without the query. Percent escapes are not decoded.
    public var path: String
    /// The text behind the question mark, as received; empty without one.
    public var query: String

    public init(method: String = "GET", path: String, query: String = "") {
        (self.method, self.path, self.query) = (method, path, query)
    }
}
