/// The connection cannot go on: HTTP/2 was broken by the peer, or memory ran out.
struct HTTP2Error: Error, Equatable {
    var text: String
}
