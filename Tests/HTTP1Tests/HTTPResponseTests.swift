import Testing

@testable import HTTP1

@Suite("The reader of a response")
struct HTTPResponseTests {
    private func read(_ text: String, closing: Bool = false) -> HTTPResponseReader {
        var reader = HTTPResponseReader()
        reader.receive(Array(text.utf8)[...])
        if closing { reader.ended() }
        return reader
    }

    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, true), ("HTTP/1.1 204 No Content\r\n\r\n", 204, true),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length:0\r\n\r\n", 201, true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n", 200, true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", 200, true),
        ("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", 500, false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", 200, false),
        ("HTTP/1.1 200 OK\nContent-Length: 1, 1\n\nx", 200, true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore", 200, false),
    ])
    func `a complete response has a status`(text: String, status: Int, keeps: Bool) {
        let reader = read(text)
        #expect(reader.head?.status == status && reader.keepsConnection == keeps && !reader.isBroken)
    }

    @Test(arguments: [
        "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc", "HTTP/1.1 200 OK\r\n\r\nbody until the end",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
    ])
    func `an incomplete response has none`(text: String) {
        #expect(read(text).head == nil && !read(text).isBroken)
        let isWhole = text.contains("until the end")
        #expect(read(text, closing: true).head?.status == (isWhole ? 200 : nil))
        #expect(read(text, closing: true).isBroken == !isWhole && !read(text, closing: true).keepsConnection)
    }

    @Test(arguments: [
        "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    ])
    func `other bytes break the connection`(text: String) {
        #expect(read(text).isBroken && read(text).head == nil)
    }

    @Test func `an endless head breaks the connection`() {
        #expect(read("HTTP/1.1 200 OK\r\n" + String(repeating: "x", count: 70_000)).isBroken)
    }

    @Test func `the body is kept on request, without the framing of chunks`() {
        for (fields, text) in [
            ("Content-Length: 3", "a\nb"), ("Transfer-Encoding: chunked", "1;x=1\r\na\r\n2\r\n\nb\r\n0\r\nX: y\r\n\r\n"),
            ("X: y", "a\nb"),
        ] {
            for keepsBody in [false, true] {
                var reader = HTTPResponseReader(keepsBody: keepsBody)
                reader.receive(Array("HTTP/1.1 200 OK\r\n\(fields)\r\n\r\n\(text)".utf8)[...])
                reader.ended()
                #expect(reader.head?.status == 200 && reader.body == Array((keepsBody ? "a\nb" : "").utf8))
            }
        }
    }

    @Test func `the head has its reason and the values of a field in lower case`() {
        let head = read("HTTP/1.1 503 Not now\r\nServer: A, b\r\nserver:C\r\nContent-Length: 0\r\n\r\n").head
        #expect(head?.reason == "Not now" && head?.values("server") == ["a", "b", "c"])
    }

    @Test func `endless heads break the connection`() {
        #expect(read(String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 3000)).isBroken)
    }
}
