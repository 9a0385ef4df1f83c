import JSONBytes
import Testing

@testable import gaplessd

@Suite("The parts of the relay")
struct RelayValueTests {
    private func read(_ text: String, closing: Bool = false) -> HTTPResponseReader {
        var reader = HTTPResponseReader()
        reader.receive(Array(text.utf8))
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
        #expect(reader.status == status && reader.keepsConnection == keeps && !reader.isBroken)
    }

    @Test(arguments: [
        "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc", "HTTP/1.1 200 OK\r\n\r\nbody until the end",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
    ])
    func `an incomplete response has none`(text: String) {
        #expect(read(text).status == nil && !read(text).isBroken)
        let isWhole = text.contains("until the end")
        #expect(read(text, closing: true).status == (isWhole ? 200 : nil))
        #expect(read(text, closing: true).isBroken == !isWhole && !read(text, closing: true).keepsConnection)
    }

    @Test(arguments: [
        "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    ])
    func `other bytes break the connection`(text: String) {
        #expect(read(text).isBroken && read(text).status == nil)
    }

    @Test func `an endless head breaks the connection`() {
        #expect(read("HTTP/1.1 200 OK\r\n" + String(repeating: "x", count: 70_000)).isBroken)
    }

    @Test(arguments: [
        ("https://a.example/x", "a.example", 443, "/x"), ("http://127.0.0.1:8080", "127.0.0.1", 8080, "/"),
        ("HTTPS://a.example?b=c", "a.example", 443, "/?b=c"), ("http://[::1]:80/", "::1", 80, "/"),
    ])
    func `relay_url is an address and a target`(text: String, host: String, port: Int, target: String) {
        let url = RelayURL(text)
        #expect(url?.address == HostAndPort(host, port) && url?.target == target)
        #expect(url.flatMap { RelayURL($0.text) } == url)
    }

    @Test(arguments: ["ftp://a", "a.example", "https://", "https://u:p@a", "https://a/#b", "https://a b", "https://a:0/", ""])
    func `relay_url has no other form`(text: String) {
        #expect(RelayURL(text) == nil)
    }

    @Test func `a log or a fault shows neither path nor query of relay_url`() {
        #expect(RelayURL("https://a.example/SECRET?k=SECRET")?.shown == "https://a.example")
    }

    @Test(arguments: ["+200", "007", "-0", "0x1", "1.5", "1e3", " 1", "NaN", "99999999999999999999"])
    func `a number that JSON does not allow is a string`(text: String) throws {
        let entry = RelayEntry(id: "1-0", fields: [("status", text), ("at", "5"), ("id", "x"), ("at", "-7")])
        let body = RelayEntry.body([entry])
        #expect(String(decoding: body, as: UTF8.self) == #"[{"id": "1-0", "status": "\#(text)", "at": -7}]"#)
        #expect(throws: Never.self) { try JSONValue.parse(body) }
    }

    @Test func `results are JSON with numbers and nulls`() {
        let entry = RelayEntry(
            id: "1-0", fields: [("identifier", "7"), ("status", "410"), ("reason", "a\"b"), ("apns_id", ""), ("at", "x")])
        #expect(
            String(decoding: RelayEntry.body([entry, entry]), as: UTF8.self)
                == "["
                + [String](
                    repeating: #"{"id": "1-0", "identifier": "7", "status": 410, "reason": "a\"b", "apns_id": null, "at": "x"}"#,
                    count: 2
                )
                .joined(separator: ", ") + "]")
    }
}
