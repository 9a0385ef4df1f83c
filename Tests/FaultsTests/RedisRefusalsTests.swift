import Testing

@testable import Harness

@Suite("Error replies of the fault proxy")
struct RedisRefusalsTests {
    private var refusals = RedisRefusals()

    private static let ping = "*1\r\n$4\r\nPING\r\n"
    private static let get = "*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n"

    private mutating func ask(_ text: String, _ errors: String?...) -> (String, String) {
        var errors = errors[...]
        let (toServer, toDaemon) = refusals.add(requests: Array(text.utf8)[...]) { errors.popFirst() ?? nil }
        return (String(decoding: toServer, as: UTF8.self), String(decoding: toDaemon, as: UTF8.self))
    }

    private mutating func reply(_ text: String) -> String {
        String(decoding: refusals.add(replies: Array(text.utf8)[...]), as: UTF8.self)
    }

    @Test mutating func `a refused request does not reach Redis`() {
        #expect(ask(Self.ping, "LOADING later") == ("", "-LOADING later\r\n"))
        #expect(ask(Self.get, nil) == (Self.get, ""))
    }

    @Test mutating func `replies keep the order of the requests`() {
        #expect(ask(Self.get + Self.ping + Self.get, nil, "BUSY", nil) == (Self.get + Self.get, ""))
        #expect(reply("*2\r\n:1\r\n$3\r\n") == "")
        #expect(reply("\r\nx\r\n+O") == "*2\r\n:1\r\n$3\r\n\r\nx\r\n-BUSY\r\n")
        #expect(reply("K\r\n") == "+OK\r\n")
    }

    @Test mutating func `a request in pieces is one request`() {
        for piece in ["*2\r\n$3\r", "\nGET\r\n$3\r\na\r"] { #expect(ask(piece, "ERR").1 == "") }
        #expect(ask("\n\r\n", "ERR") == ("", "-ERR\r\n"))
    }

    @Test(arguments: ["$-1\r\n", "*-1\r\n", "*0\r\n", "+OK\r\n", "-ERR no\r\n", ":-7\r\n", "*2\r\n*1\r\n$0\r\n\r\n:1\r\n"])
    func `every kind of value has an end`(text: String) {
        #expect(RESPFrame.length(of: Array((text + "+next\r\n").utf8)[...]) == text.utf8.count)
        #expect(RESPFrame.length(of: Array(text.utf8.dropLast())[...]) == nil)
    }
}
