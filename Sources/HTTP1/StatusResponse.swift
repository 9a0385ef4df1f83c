internal import Platform

/// The response to one request.
public struct StatusResponse: Sendable, Equatable {
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

    /// The bytes on the wire (RFC 9112, section 4). `nosniff` and `no-store` keep a browser from guessing a type and from
    /// caching.
    ///
    /// - Parameter now: Unix seconds.
    func encoded(for profile: ServerProfile, withBody: Bool, now: Int64) -> [UInt8] {
        let allow = status == 405 ? "Allow: \(profile.methods.joined(separator: ", "))\r\n" : ""
        let head = """
            HTTP/1.1 \(status) \(reason)\r
            Date: \(UTCDate.http(now))\r
            Content-Type: \(contentType)\r
            Content-Length: \(body.count)\r
            Cache-Control: no-store\r
            X-Content-Type-Options: nosniff\r
            Server: \(profile.name)\r
            \(allow)Connection: close\r
            \r

            """
        return Array(head.utf8) + (withBody ? body : [])
    }

    private var reason: String {
        switch status {
        case 200: "OK"
        case 400: "Bad Request"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 413: "Content Too Large"
        case 421: "Misdirected Request"
        case 503: "Service Unavailable"
        default: ""
        }
    }
}
