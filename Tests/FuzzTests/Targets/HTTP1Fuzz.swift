import Platform

@testable import HTTP1
@testable import PushPool

/// Requests for metrics.
enum RequestFuzz {
    private static let hosts = AllowedHosts(["metrics.example.com", "10.0.0.1", "::2"])

    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let pieces = input.pieces()
        var whole = HTTPRequestParser(limit: 1000)
        let result = whole.receive(pieces.joined().map(\.self))
        var parted = HTTPRequestParser(limit: 1000)
        var partedResult = HTTPRequestParser.Result.incomplete
        for piece in pieces where partedResult == .incomplete { partedResult = parted.receive(piece) }
        try BrokenPromise.unless(result == partedResult, "the pieces change the request")
        guard case .request(let head) = result else { return }
        try BrokenPromise.unless(!head.method.isEmpty, "a request without a method")
        let refusal = hosts.refusal(of: head, local: IPAddress("10.0.0.7"), ServerProfile())
        try BrokenPromise.unless(refusal != nil || head.hosts.count == 1 || head.minorVersion == 0, "several hosts")
    }
}

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
