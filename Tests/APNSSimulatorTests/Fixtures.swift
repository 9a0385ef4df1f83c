import APNSSimulator
import Glibc
import Harness
import Platform
import Testing

/// A program of the system. It must exit within a minute.
enum Program {
    struct Outcome {
        var status: CInt?
        var output: String
    }

    static func run(_ command: String...) throws -> Outcome { try run(command) }

    static func run(_ command: [String]) throws -> Outcome {
        let folder = TemporaryFolder()
        let output = folder.file("output")
        let process = try ChildProcess(
            command[0], Array(command.dropFirst()), standardOutput: .file(output), standardError: .file(output))
        let status = process.wait(atMost: .seconds(60))?.status
        return Outcome(status: status, output: File.read(output))
    }
}

/// A simulator with credentials that all tests share, and nghttp as its client.
struct Fixture {
    static let credentials = Result { try Credentials.make(.init(topics: ["com.example.app", "com.example.app.voip"])) }
    static let topic = "com.example.app"
    static let deviceToken = String(repeating: "0a", count: 32)

    let simulator: Simulator
    let folder = TemporaryFolder()

    init(_ change: (inout Simulator.Configuration) -> Void = { _ in }) throws {
        let credentials = try Fixture.credentials.get()
        try credentials.write(to: folder.path)
        var configuration = Simulator.Configuration(credentials: credentials)
        change(&configuration)
        simulator = try Simulator(configuration)
    }

    static func providerToken(age: Int64 = 0, form: ProviderKey.SignatureForm = .jose) throws -> String {
        try credentials.get().providerKey.token(issuedAt: Int64(time(nil)) - age, form: form)
    }

    func url(_ token: String = Fixture.deviceToken) -> String { "https://localhost:\(simulator.port)/3/device/\(token)" }

    /// Writes a file and returns its path.
    func file(_ name: String, _ content: String) throws -> String {
        try File.write(content, to: folder.file(name))
        return folder.file(name)
    }

    /// Pushes with `nghttp -v` and returns its output without colours.
    func nghttp(
        headers: [String] = ["apns-topic: \(Fixture.topic)"], body: String = #"{"aps":{"alert":"Hello"}}"#,
        urls: [String]? = nil, auth: Bool = true, certificate: Bool = false, options: [String] = []
    ) throws -> String {
        var command = ["nghttp", "-v", "--no-dep", "-t", "10", "-d", try file("body.json", body), "-H", ":method: POST"]
        for header in headers { command += ["-H", header] }
        if auth { command += ["-H", "authorization: bearer \(try Fixture.providerToken())"] }
        if certificate { command += ["--cert", folder.file("client.pem"), "--key", folder.file("client-key.pem")] }
        return try Program.run(command + options + (urls ?? [url()])).output
            .replacing(/\u{1B}\[[0-9;]*m/, with: "")
    }
}

/// Waits for a condition for at most ten seconds.
func eventually(_ what: Comment, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () -> Bool) {
    if !waitUntil(condition) { Issue.record(what, sourceLocation: sourceLocation) }
}

/// A client that writes HTTP/2 frames itself, including invalid ones.
final class RawClient {
    struct Frame: Equatable {
        var type: UInt8
        var flags: UInt8
        var stream: UInt32
        var payload: [UInt8]

        static let data: UInt8 = 0, headers: UInt8 = 1, reset: UInt8 = 3, settings: UInt8 = 4, ping: UInt8 = 6
        static let goAway: UInt8 = 7

        /// A number in the payload of GOAWAY or RST_STREAM.
        func number(at offset: Int) -> UInt32 {
            guard payload.count >= offset + 4 else { return .max }
            return payload[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
        }
    }

    struct Closed: Error {}
    struct TimedOut: Error {}

    private var tls: TLSStream
    private var received: [UInt8] = []
    /// One token for the connection: a second one with another signature is rejected.
    private let bearer: String

    init(_ fixture: Fixture, certificate: Bool = false) throws {
        bearer = "bearer \(try Fixture.providerToken())"
        let identity =
            certificate
            ? TLSContext.Identity(
                certificatesPEM: try Fixture.credentials.get().clientCertificatePEM,
                keyPEM: try Fixture.credentials.get().clientKeyPEM) : nil
        let context = try TLSContext(
            clientTrusting: fixture.folder.file("ca.pem"), identity: identity, protocols: ["h2"])
        let address = try SocketAddress.resolve(host: "127.0.0.1", port: fixture.simulator.port)[0]
        let socket = try Socket(connectingTo: address)
        RawClient.wait(socket.descriptor, .write, until: .now + .seconds(5))
        if let code = socket.connectError() { throw SocketError.system("connect", errno: code) }
        tls = try TLSStream(client: socket, host: "localhost", wantedProtocol: "h2", context)
        try shakeHands()
        try write(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8))
        try send(.init(type: Frame.settings, flags: 0, stream: 0, payload: []))
    }

    private func shakeHands() throws {
        while true {
            switch tls.handshake() {
            case .done: return
            case .needsRead: RawClient.wait(tls.descriptor, .read, until: .now + .seconds(5))
            case .needsWrite: RawClient.wait(tls.descriptor, .write, until: .now + .seconds(5))
            case .closed: throw Closed()
            case .failed(let error): throw error
            }
        }
    }

    private static func wait(_ descriptor: CInt, _ readiness: Poller.Readiness, until deadline: Instant) {
        var poller = Poller()
        poller.add(descriptor, for: readiness)
        poller.wait(until: deadline)
    }

    func send(_ frame: Frame) throws {
        let length = frame.payload.count
        var bytes = [UInt8(length >> 16 & 255), UInt8(length >> 8 & 255), UInt8(length & 255), frame.type, frame.flags]
        for shift in [UInt32(24), 16, 8, 0] { bytes.append(UInt8(frame.stream >> shift & 255)) }
        try write(bytes + frame.payload)
    }

    /// Sends HEADERS as literals without indexing and without Huffman codes (RFC 7541, 6.2.2).
    func sendHeaders(stream: UInt32, _ headers: [(String, String)]) throws {
        var block: [UInt8] = []
        for (name, value) in headers {
            block.append(0)
            for text in [name, value] {
                let utf8 = Array(text.utf8)
                // An integer with a prefix of 7 bits (RFC 7541, 5.1).
                if utf8.count < 127 { block.append(UInt8(utf8.count)) } else { block += [127] + RawClient.rest(utf8.count - 127) }
                block += utf8
            }
        }
        try send(.init(type: Frame.headers, flags: 4, stream: stream, payload: block))
    }

    private static func rest(_ number: Int) -> [UInt8] {
        number < 128 ? [UInt8(number)] : [UInt8(number & 127 | 128)] + rest(number >> 7)
    }

    func sendBody(stream: UInt32, _ text: String = "{}") throws {
        try send(.init(type: Frame.data, flags: 1, stream: stream, payload: Array(text.utf8)))
    }

    /// Sends a complete valid request.
    func push(stream: UInt32, token: String = Fixture.deviceToken, auth: Bool = true) throws {
        try sendHeaders(stream: stream, headers(token: token, auth: auth))
        try sendBody(stream: stream)
    }

    func headers(token: String = Fixture.deviceToken, auth: Bool = true) -> [(String, String)] {
        let bearer = auth ? [("authorization", bearer)] : []
        return [
            (":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/3/device/\(token)"),
            ("apns-topic", Fixture.topic),
        ] + bearer
    }

    /// Returns the next frame, or the next frame of a type.
    func next(_ type: UInt8? = nil, within limit: Duration = .seconds(5)) throws -> Frame {
        let deadline = Instant.now + limit
        while true {
            if let frame = takeFrame() {
                if type == nil || frame.type == type { return frame }
                continue
            }
            try read(until: deadline)
        }
    }

    /// Returns whether the simulator closes the connection. Discards frames.
    func isClosed(within limit: Duration = .seconds(5)) -> Bool {
        do {
            while true { _ = try next(within: limit) }
        } catch {
            return error is Closed || error is SocketError
        }
    }

    private func takeFrame() -> Frame? {
        guard received.count >= 9 else { return nil }
        let length = Int(received[0]) << 16 | Int(received[1]) << 8 | Int(received[2])
        guard received.count >= 9 + length else { return nil }
        defer { received.removeFirst(9 + length) }
        let stream = received[5..<9].reduce(0) { $0 << 8 | UInt32($1) }
        return Frame(type: received[3], flags: received[4], stream: stream, payload: Array(received[9..<9 + length]))
    }

    private func read(until deadline: Instant) throws {
        var buffer = [UInt8](repeating: 0, count: 16384)
        switch buffer.withUnsafeMutableBytes({ tls.read(into: $0) }) {
        case .done(let count): received += buffer[..<count]
        case .needsRead, .needsWrite:
            guard Instant.now < deadline else { throw TimedOut() }
            RawClient.wait(tls.descriptor, .read, until: deadline)
        case .closed: throw Closed()
        case .failed(let error): throw error
        }
    }

    private func write(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            switch rest.withUnsafeBytes({ tls.write($0) }) {
            case .done(let count): rest = rest.dropFirst(count)
            case .needsRead, .needsWrite: RawClient.wait(tls.descriptor, .write, until: .now + .seconds(5))
            case .closed: throw Closed()
            case .failed(let error): throw error
            }
        }
    }
}
