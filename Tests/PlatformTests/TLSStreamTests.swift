import APNSSimulator
import Glibc
import Testing

@testable import Platform

/// A client and a server of our own, both non-blocking, on one thread: each step of one is followed by one of the other.
private struct Pair: ~Copyable {
    var client: TLSStream
    var server: TLSStream

    init(client: consuming TLSStream, server: consuming TLSStream) {
        self.client = client
        self.server = server
    }

    static func make(host: String, _ clientContext: TLSContext, _ serverContext: TLSContext) throws -> Pair {
        let listener = try Listener(port: 0)
        guard let address = try SocketAddress.resolve(host: "127.0.0.1", port: listener.port).first else {
            throw SocketError.badAddress("no loopback")
        }
        let socket = try Socket(connectingTo: address)
        return Pair(
            client: try TLSStream(client: socket, host: host, wantedProtocol: "h2", clientContext),
            server: try TLSStream(server: try accept(listener), serverContext))
    }

    private static func accept(_ listener: borrowing Listener) throws -> Socket {
        var poller = Poller()
        poller.add(listener.descriptor, for: .read)
        poller.wait(until: .now + .seconds(5))
        guard let socket = listener.accept() else { throw SocketError.timedOut("accept") }
        return socket
    }

    /// How the client's handshake ends.
    mutating func handshake() -> Progress {
        let limit = Instant.now + .seconds(10)
        var isServerOver = false
        while Instant.now < limit {
            let progress = client.handshake()
            let isOver = progress != .needsRead && progress != .needsWrite
            if !isServerOver { isServerOver = ![.needsRead, .needsWrite].contains(server.handshake()) }
            if isOver { return progress }
        }
        return .failed(.timedOut("handshake"))
    }
}

@Suite("A TLS stream")
struct TLSStreamTests {
    private let credentials: Credentials
    private let folder = "/tmp/gapless-sockets-\(getpid())-\(UInt64.random(in: 0...UInt64.max))"

    init() throws {
        credentials = try Credentials.make()
    }

    private var serverIdentity: TLSContext.Identity {
        TLSContext.Identity(certificatesPEM: credentials.serverCertificatePEM, keyPEM: credentials.serverKeyPEM)
    }

    /// A client that trusts the simulator's CA beside the system's.
    private func trusting(_ protocols: [String] = ["h2"]) throws -> TLSContext {
        try credentials.write(to: folder)
        defer { removeFolder() }
        return try TLSContext(clientTrusting: "\(folder)/ca.pem", identity: nil, protocols: protocols)
    }

    private func removeFolder() {
        guard let entries = opendir(folder) else { return }
        while let entry = readdir(entries) {
            unlink(
                folder + "/"
                    + withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) })
        }
        closedir(entries)
        rmdir(folder)
    }

    private func server() throws -> TLSContext { try TLSContext(serverFor: serverIdentity, clientRootsPEM: nil) }

    @Test(arguments: ["localhost", "127.0.0.1"])
    func `carries bytes once the chain, the name and the protocol are right`(host: String) throws {
        var pair = try Pair.make(host: host, try trusting(), try server())
        #expect(pair.handshake() == .done(0))
        #expect(pair.client.version == "TLSv1.3")
        let sent = Array("hello".utf8).withUnsafeBytes { pair.client.write($0) }
        #expect(sent == .done(5))
        var buffer = [UInt8](repeating: 0, count: 100)
        var received = Progress.needsRead
        let limit = Instant.now + .seconds(5)
        while received == .needsRead && Instant.now < limit {
            received = buffer.withUnsafeMutableBytes { pair.server.read(into: $0) }
        }
        #expect(received == .done(5))
        #expect(buffer.prefix(5).elementsEqual("hello".utf8))
    }

    @Test func `a partial record is not pending, because poll(2) announces its rest`() throws {
        var pair = try Pair.make(host: "localhost", try trusting(), try server())
        #expect(pair.handshake() == .done(0))
        for _ in 0..<1000 where pair.server.handshake() != .done(0) {}
        var buffer = [UInt8](repeating: 0, count: 100)
        #expect(buffer.withUnsafeMutableBytes { pair.client.read(into: $0) } == .needsRead)
        // Application data of 80 bytes, of which 3 are sent (RFC 8446, 5.1).
        #expect(write(pair.server.descriptor, [0x17, 3, 3, 0, 80, 1, 2, 3] as [UInt8], 8) == 8)
        var poller = Poller()
        poller.add(pair.client.descriptor, for: .read)
        poller.wait(until: .now + .seconds(60))
        #expect(buffer.withUnsafeMutableBytes { pair.client.read(into: $0) } == .needsRead)
        let isPending = pair.client.hasPending
        #expect(!isPending)
    }

    @Test(arguments: [(UInt8(47), false), (48, true), (40, false), (42, true)])
    func `an alert refuses our certificate only if it is about certificates`(alert: UInt8, isCredential: Bool) throws {
        var pair = try Pair.make(host: "localhost", try trusting(), try server())
        #expect(pair.client.handshake() == .needsRead)
        // A fatal alert without encryption (RFC 8446, 6).
        #expect(write(pair.server.descriptor, [0x15, 3, 3, 0, 2, 2, alert], 7) == 7)
        var poller = Poller()
        poller.add(pair.client.descriptor, for: .read)
        poller.wait(until: .now + .seconds(60))
        let progress = pair.client.handshake()
        if case .failed(.tls(.ourCertificateRefused)) = progress { #expect(isCredential) } else { #expect(!isCredential) }
    }

    @Test func `contexts share roots, which are trusted for as long as one of them lives`() throws {
        try credentials.write(to: folder)
        defer { removeFolder() }
        var roots: TLSRoots? = try TLSRoots(bundle: "\(folder)/ca.pem")
        let contexts = try (0..<2).map { _ in try TLSContext(clientTrusting: roots!, identity: nil, protocols: ["h2"]) }
        roots = nil
        for context in contexts {
            var pair = try Pair.make(host: "localhost", context, try server())
            #expect(pair.handshake() == .done(0))
        }
    }

    @Test func `refuses a chain whose root is not trusted here`() throws {
        let systemOnly = try TLSContext(clientTrusting: nil, identity: nil, protocols: ["h2"])
        var pair = try Pair.make(host: "localhost", systemOnly, try server())
        let progress = pair.handshake()
        guard case .failed(.tls(.untrusted(let why))) = progress else {
            Issue.record("\(progress)")
            return
        }
        #expect(why.contains("certificate"))
    }

    @Test func `refuses a certificate that is for another name`() throws {
        var pair = try Pair.make(host: "api.push.apple.com", try trusting(), try server())
        let progress = pair.handshake()
        guard case .failed(.tls(.untrusted(let why))) = progress else {
            Issue.record("\(progress)")
            return
        }
        #expect(why == "hostname mismatch")
    }

    @Test func `refuses a server that does not choose the protocol`() throws {
        var pair = try Pair.make(host: "localhost", try trusting([]), try server())
        #expect(pair.handshake() == .failed(.tls(.noProtocol(wanted: "h2", got: ""))))
    }

    @Test func `says what is wrong with a CA bundle that cannot be read`() {
        #expect(throws: TLSError.self) {
            try TLSContext(clientTrusting: "/nonexistent/ca.pem", identity: nil, protocols: [])
        }
    }

    @Test func `refuses a key that does not belong to the certificate`() throws {
        let mixed = TLSContext.Identity(certificatesPEM: credentials.serverCertificatePEM, keyPEM: credentials.clientKeyPEM)
        #expect(throws: TLSError.self) { try TLSContext(serverFor: mixed, clientRootsPEM: nil) }
    }
}

@Suite("A socket address")
struct SocketAddressTests {
    @Test func `resolves literals of both families`() throws {
        #expect(try SocketAddress.resolve(host: "127.0.0.1", port: 443).map(\.description).contains("127.0.0.1:443"))
        #expect(try SocketAddress.resolve(host: "::1", port: 443).map(\.description).contains("[::1]:443"))
    }

    @Test func `says which host cannot be resolved`() {
        #expect(throws: SocketError.self) { try SocketAddress.resolve(host: "host.invalid", port: 1) }
    }

    @Test func `takes a Unix path of 1 to 107 bytes`() throws {
        #expect(try SocketAddress(unixPath: String(repeating: "x", count: 107)).description.count == 107)
        #expect(throws: SocketError.self) { try SocketAddress(unixPath: String(repeating: "x", count: 108)) }
        #expect(throws: SocketError.self) { try SocketAddress(unixPath: "") }
    }

    @Test func `a refused connection is reported by its error`() throws {
        let port = try Listener(port: 0).port
        let address = try #require(try SocketAddress.resolve(host: "127.0.0.1", port: port).first)
        let socket = try Socket(connectingTo: address)
        var poller = Poller()
        poller.add(socket.descriptor, for: .write)
        poller.wait(until: .now + .seconds(5))
        #expect(socket.connectError() == ECONNREFUSED)
    }
}
