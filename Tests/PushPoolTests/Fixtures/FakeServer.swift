import Glibc
import Platform
import PushPool
import Synchronization

/// An HTTP/2 server made of hand-written frames: it ignores HPACK, counts requests and follows a script.
final class FakeServer {
    /// The script of one connection.
    struct Script: Sendable {
        enum Answer: Sendable {
            case status(Int, body: String = "")
            case reset(UInt32)
            case silence
            /// GOAWAY, no answer to this request, and more answers to those before.
            case goAway(last: UInt32, code: UInt32 = 0, debug: String = "")
            case hangUp
            /// The beginning of a TLS record that never ends.
            case partialRecord
            /// SETTINGS with another limit, then 200.
            case limit(UInt32)
        }

        var maxConcurrentStreams: UInt32? = 100
        var sendsSettings = true
        /// A GOAWAY with this debug data in the place of SETTINGS.
        var goAwayFirst: String?
        /// After the client's SETTINGS acknowledgement: a GOAWAY with this debug data, then the end of the connection by RST.
        var goAwayThenReset: String?
        var answersPings = true
        /// Reads nothing from the first request on.
        var isDeaf = false
        /// For the n-th request of the connection; the last one goes on for ever.
        var answers: [Answer] = [.status(200)]
    }

    /// The requests and connections so far.
    final class Record: Sendable {
        let connections = Atomic<Int>(0)
        let requests = Atomic<Int>(0)
        let pings = Atomic<Int>(0)
        let resets = Atomic<Int>(0)
        let partialRecords = Atomic<Int>(0)
        let goAways = Atomic<Int>(0)
    }

    let port: Int
    let record = Record()
    private let stop = WakeUp()
    private var thread: OwnedThread?

    /// - Parameter scripts: for the n-th connection; the last one goes on for ever.
    init(_ scripts: [Script] = [Script()], identity: TLSContext.Identity = Certificates.shared.server) throws {
        let listener = Held(try Listener(port: 0))
        port = listener.value.port
        let context = try TLSContext(serverFor: identity, clientRootsPEM: nil)
        let record = record
        let stop = stop
        thread = try OwnedThread(name: "fake server") { serve(listener, scripts, context, record, stop) }
    }

    deinit { close() }

    /// Ends every connection and joins their threads.
    func close() {
        stop.ring()
        thread.take()?.join()
    }
}

private final class Held: @unchecked Sendable {  // Made by the test, then used by the server's thread alone.
    let value: Listener
    init(_ value: consuming Listener) { self.value = value }
}

private final class HeldSocket: @unchecked Sendable {  // Handed from the accepting thread to the connection's.
    private var socket: Socket?
    init(_ socket: consuming Socket) { self.socket = consume socket }
    func take() -> Socket? { socket.take() }
}

private final class HeldThread {
    private var thread: OwnedThread?
    init(_ thread: consuming OwnedThread) { self.thread = consume thread }
    func join() { thread.take()?.join() }
}

private func serve(
    _ listener: Held, _ scripts: [FakeServer.Script], _ context: TLSContext, _ record: FakeServer.Record, _ stop: WakeUp
) {
    var threads: [HeldThread] = []
    var poller = Poller()
    while true {
        poller.reset()
        poller.add(listener.value.descriptor, for: .read)
        poller.add(stop.descriptor, for: .read)
        poller.wait(until: nil)
        if poller.readiness(at: 1).contains(.read) { break }
        guard let socket = listener.value.accept() else { continue }
        let number = record.connections.add(1, ordering: .relaxed).oldValue
        let script = scripts[min(number, scripts.count - 1)]
        let held = HeldSocket(socket)
        threads.append(
            HeldThread(
                try! OwnedThread(name: "fake session") {
                    guard let socket = held.take(), let stream = try? TLSStream(server: socket, context) else { return }
                    var session = FakeSession(stream, script, record, stop)
                    session.run()
                }))
    }
    for thread in threads { thread.join() }
}

/// One connection.
private struct FakeSession: ~Copyable {
    private var stream: TLSStream
    private let script: FakeServer.Script
    private let record: FakeServer.Record
    private let stop: WakeUp
    private var input: [UInt8] = []
    private var output: [UInt8] = []
    private var requests = 0
    private var isOver = false
    private var startsRecord = false

    init(_ stream: consuming TLSStream, _ script: FakeServer.Script, _ record: FakeServer.Record, _ stop: WakeUp) {
        self.stream = stream
        self.script = script
        self.record = record
        self.stop = stop
    }

    mutating func run() {
        guard finishHandshake() else { return }
        if let debug = script.goAwayFirst {
            goAway(last: 0, code: 0, debug: debug)
        } else if script.sendsSettings {
            settings(script.maxConcurrentStreams)
        }
        var buffer = [UInt8](repeating: 0, count: 65536)
        var hasPreface = false
        while !isOver {
            guard flush() else { return }
            if startsRecord { startRecord() }
            if script.isDeaf && requests > 0 {
                _ = wait(for: [], alsoSocket: false)
                return
            }
            switch buffer.withUnsafeMutableBytes({ stream.read(into: $0) }) {
            case .done(let count): input += buffer[..<count]
            case .needsRead: if !wait(for: .read) { return }
            case .needsWrite: if !wait(for: .write) { return }
            case .closed, .failed: return
            }
            if !hasPreface && input.count >= 24 {
                input.removeFirst(24)
                hasPreface = true
            }
            if hasPreface { takeFrames() }
        }
        _ = flush()
    }

    /// Bypasses TLS: application data of 80 bytes, of which 3 are sent (RFC 8446, 5.1).
    private mutating func startRecord() {
        startsRecord = false
        _ = write(stream.descriptor, [0x17, 3, 3, 0, 80, 1, 2, 3] as [UInt8], 8)
        record.partialRecords.add(1, ordering: .relaxed)
    }

    private mutating func finishHandshake() -> Bool {
        while true {
            switch stream.handshake() {
            case .done: return true
            case .needsRead: if !wait(for: .read) { return false }
            case .needsWrite: if !wait(for: .write) { return false }
            case .closed, .failed: return false
            }
        }
    }

    /// Whether the socket is ready; `false` when the server stops.
    private func wait(for interest: Poller.Readiness, alsoSocket: Bool = true) -> Bool {
        var poller = Poller()
        poller.add(stop.descriptor, for: .read)
        if alsoSocket { poller.add(stream.descriptor, for: interest) }
        poller.wait(until: nil)
        return !poller.readiness(at: 0).contains(.read)
    }

    private mutating func flush() -> Bool {
        while !output.isEmpty {
            switch output.withUnsafeBytes({ stream.write($0) }) {
            case .done(let count): output.removeFirst(count)
            case .needsRead: if !wait(for: .read) { return false }
            case .needsWrite: if !wait(for: .write) { return false }
            case .closed, .failed: return false
            }
        }
        return true
    }

    private mutating func takeFrames() {
        while input.count >= 9 && !isOver {
            let length = Int(input[0]) << 16 | Int(input[1]) << 8 | Int(input[2])
            guard input.count >= 9 + length else { return }
            let (type, flags) = (input[3], input[4])
            let stream = UInt32(bigEndian: input[5..<9].withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }) & 0x7FFF_FFFF
            let payload = Array(input[9..<9 + length])
            input.removeFirst(9 + length)
            switch type {
            case 0, 1: if flags & 1 != 0 { request(stream) }
            case 3: record.resets.add(1, ordering: .relaxed)
            case 4 where flags & 1 == 0: if script.sendsSettings { frame(4, flags: 1, 0, []) }
            case 4: acknowledged()
            case 6:
                record.pings.add(1, ordering: .relaxed)
                if script.answersPings && flags & 1 == 0 { frame(6, flags: 1, 0, payload) }
            default: break
            }
        }
    }

    private mutating func acknowledged() {
        guard let debug = script.goAwayThenReset else { return }
        goAway(last: 0, code: 0, debug: debug)
        isOver = true
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(stream.descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    private mutating func request(_ stream: UInt32) {
        record.requests.add(1, ordering: .relaxed)
        let answer = script.answers[min(requests, script.answers.count - 1)]
        requests += 1
        // Both windows stay open for payloads.
        frame(8, flags: 0, 0, bytes(4096))
        switch answer {
        case .status(let status, let body): self.answer(stream, status, body)
        case .reset(let code): frame(3, flags: 0, stream, bytes(code))
        case .silence: break
        case .goAway(let last, let code, let debug): goAway(last: last, code: code, debug: debug)
        case .hangUp: isOver = true
        case .partialRecord: startsRecord = true
        case .limit(let limit):
            settings(limit)
            self.answer(stream, 200, "")
        }
    }

    private mutating func answer(_ stream: UInt32, _ status: Int, _ body: String) {
        // Literal without indexing; 8 is :status in the static table (RFC 7541, appendix A).
        let fields = [0x08, 3] + Array(String(status).utf8) + [0x00, 7] + Array("apns-id".utf8) + [2] + Array("ID".utf8)
        frame(1, flags: body.isEmpty ? 5 : 4, stream, fields)
        if !body.isEmpty { frame(0, flags: 1, stream, Array(body.utf8)) }
    }

    private mutating func settings(_ limit: UInt32?) {
        frame(4, flags: 0, 0, limit.map { [0, 3] + bytes($0) } ?? [])
    }

    private mutating func goAway(last: UInt32, code: UInt32, debug: String) {
        record.goAways.add(1, ordering: .relaxed)
        frame(7, flags: 0, 0, bytes(last) + bytes(code) + Array(debug.utf8))
    }

    private mutating func frame(_ type: UInt8, flags: UInt8, _ stream: UInt32, _ payload: [UInt8]) {
        output += bytes(UInt32(payload.count)).dropFirst() + [type, flags] + bytes(stream) + payload
    }

    private func bytes(_ value: UInt32) -> [UInt8] {
        withUnsafeBytes(of: value.bigEndian) { Array($0) }
    }
}
