/// HTTP/2 stream identifier: odd for a stream that the client opens, 31 bits (RFC 9113, 5.1.1).
typealias StreamID = Int32
