@testable import HTTP1
@testable import PushPool

/// Responses of an HTTP proxy and of a receiver of results.
enum ExchangeFuzz {
    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let isEnded = input.byte() & 1 == 1
        var proxy = ProxyAnswer()
        for byte in input.rest where proxy.receive(byte) != nil { break }
        var whole = HTTPResponseReader()
        whole.receive(input.rest)
        var parted = HTTPResponseReader()
        for byte in input.rest { parted.receive([byte]) }
        if isEnded {
            whole.ended()
            parted.ended()
        }
        let isSame = whole.head == parted.head && whole.isBroken == parted.isBroken
        try BrokenPromise.unless(isSame && whole.keepsConnection == parted.keepsConnection, "the pieces change the response")
        if let status = whole.head?.status { try BrokenPromise.unless((200...999).contains(status), "status \(status)") }
    }
}
