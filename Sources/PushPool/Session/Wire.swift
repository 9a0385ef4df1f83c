internal import Platform

/// Moves bytes between a TLS stream and a codec without blocking.
struct Wire: ~Copyable {
    /// The result of reading or writing.
    enum Flow: Equatable {
        case open
        /// The connection has ended.
        case ended(SocketError?)
        /// A sentence for the log.
        var text: String {
            switch self {
            case .open: "open"
            case .ended(nil): "the peer closed the connection"
            case .ended(let error?): error.description
            }
        }
    }

    /// The size of a full record in TLS 1.2 and 1.3 (RFC 8446, 5.1). Writing only full records is faster: 1.55 instead of 1.80
    /// us a push (measured).
    static let recordBytes = 16384
    /// Bytes read in one turn before other work.
    private static let mostReadPerTurn = 256 << 10
    /// Turns of reading after a failed write: 8 MiB, more than Linux lets a socket buffer by default (tcp_rmem, 6 MiB).
    private static let mostLastTurns = 32

    private var stream: TLSStream
    private var input = [UInt8](repeating: 0, count: Wire.recordBytes)
    /// TLS cannot write and waits for the socket.
    private(set) var isBlocked = false
    private var readWaitsForWrite = false
    /// Everything that arrived has been read: until the socket is ready again, another read is a wasted system call.
    private var isDrained = false

    init(_ stream: consuming TLSStream) { self.stream = stream }

    var descriptor: CInt { stream.descriptor }

    /// Whether decrypted bytes are pending: the session must not sleep.
    var hasPending: Bool { stream.hasPending }

    var interestInWriting: Bool { isBlocked || readWaitsForWrite }

    /// The socket is ready again.
    mutating func becameReady() {
        isDrained = false
        isBlocked = false
        readWaitsForWrite = false
    }

    /// Continues the TLS handshake.
    mutating func handshake() -> Progress { stream.handshake() }

    /// Reads the available bytes into the codec and sets `hasRead` if there were any.
    mutating func read(into codec: inout HTTP2Codec, hasRead: inout Bool) -> Flow {
        if isDrained && !hasPending { return .open }
        var total = 0
        while total < Wire.mostReadPerTurn {
            switch unsafe input.withUnsafeMutableBytes({ unsafe stream.read(into: $0) }) {
            case .done(let count):
                hasRead = true
                total += count
                codec.receive(input.span.extracting(0..<count))
                // No response is outstanding. More bytes are unlikely, and poll(2) reports them: OpenSSL reads no record ahead.
                if codec.streams.openCount == 0 && !hasPending {
                    isDrained = true
                    return .open
                }
            case .needsRead:
                isDrained = true
                return .open
            case .needsWrite:
                readWaitsForWrite = true
                return .open
            case .closed: return .ended(nil)
            case .failed(let error): return .ended(error)
            }
        }
        return .open
    }

    /// Reads into the codec what arrived before a write failed.
    mutating func readRest(into codec: inout HTTP2Codec) {
        for _ in 0..<Wire.mostLastTurns {
            becameReady()
            var hasRead = false
            guard read(into: &codec, hasRead: &hasRead) == .open, hasRead else { return }
        }
    }

    /// Writes the codec's output in full records, and the remainder at the end.
    ///
    /// Bytes that TLS has accepted count as written: the peer cannot read a record until its end is sent.
    ///
    /// - Parameter least: a remainder of fewer bytes stays in the codec.
    mutating func write(from codec: inout HTTP2Codec, least: Int = 1) -> Flow {
        while !isBlocked && codec.out.count >= least {
            let progress = unsafe codec.out.withFirst(Wire.recordBytes) { unsafe stream.write($0) }
            switch progress {
            case .done(let count): codec.out.consume(count)
            case .needsRead, .needsWrite: isBlocked = true
            case .closed: return .ended(nil)
            case .failed(let error): return .ended(error)
            }
        }
        return .open
    }

    /// Sends close_notify as far as the socket accepts it.
    mutating func shutdown() { stream.shutdown() }
}
