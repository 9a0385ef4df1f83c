import Platform

@testable import HTTP1

/// Requests for metrics.
enum RequestFuzz {
    private static let hosts = HostList(["metrics.example.com", "10.0.0.1", "::2"])

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
