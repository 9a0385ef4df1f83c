/// A violation of HTTP/2 by the peer that ends the connection (RFC 9113, 5.4.1).
struct HTTP2Error: Error, Equatable {
    var code: HTTP2ErrorCode
    /// For GOAWAY's debug data and the log; never the peer's own bytes.
    var text: String

    init(_ code: HTTP2ErrorCode, _ text: String) {
        self.code = code
        self.text = text
    }
}
