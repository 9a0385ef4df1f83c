internal import Sockets

/// One TLS stream: bytes between a socket and a codec, never blocking.
struct Wire: ~Copyable {
    /// How reading or writing went.
    enum Flow: Equatable {
        case open
        /// The connection is over.
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

    /// TLS 1.2 and 1.3 records hold this many bytes (RFC 8446, 5.1). Full ones and no small ones in between: measured,
    /// 1.80 to 1.55 us a push.
    static let recordBytes = 16384
    /// Read in one turn before anything else happens.
    private static let mostReadPerTurn = 256 << 10

    private var stream: TLSStream
    private var input = [UInt8](repeating: 0, count: Wire.recordBytes)
    /// TLS could not write and waits for the socket.
    private(set) var isBlocked = false
    private var readWaitsForWrite = false
    /// Everything was read that had come: until the socket is ready again, looking for more is a system call for nothing.
    private var isDrained = false

    init(_ stream: consuming TLSStream) { self.stream = stream }

    var descriptor: CInt { stream.descriptor }

    /// Decrypted bytes wait: do not sleep.
    var hasPending: Bool { stream.hasPending }

    var interestInWriting: Bool { isBlocked || readWaitsForWrite }

    /// The socket is ready again.
    mutating func becameReady() {
        isDrained = false
        isBlocked = false
        readWaitsForWrite = false
    }

    /// Goes on with the TLS handshake.
    mutating func handshake() -> Progress { stream.handshake() }

    /// Reads what is there into the codec; `hasRead` tells whether anything was.
    mutating func read(into codec: inout HTTP2Codec, hasRead: inout Bool) -> Flow {
        if isDrained && !hasPending { return .open }
        var total = 0
        while total < Wire.mostReadPerTurn {
            switch unsafe input.withUnsafeMutableBytes({ unsafe stream.read(into: $0) }) {
            case .done(let count):
                hasRead = true
                total += count
                codec.receive(input.span.extracting(0..<count))
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

    /// Writes what the codec has to say, in full records, and the remainder at the end.
    ///
    /// What TLS has taken counts as written: a record that is not sent to its end cannot be read by the peer.
    ///
    /// - Parameter least: a remainder of fewer bytes stays.
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

    /// close_notify, as far as the socket takes it.
    mutating func shutdown() { stream.shutdown() }
}
