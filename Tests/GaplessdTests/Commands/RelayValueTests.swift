import JSONBytes
import Testing

@testable import gaplessd

@Suite("The parts of the relay")
struct RelayValueTests {
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
