internal import Sockets

/// The byte stream below the Redis protocol: a socket, or TLS on it.
enum Transport: ~Copyable {
    case plain(Socket)
    case tls(TLSStream)
    /// TLS could not be set up, and the socket is closed.
    case closed

    var descriptor: CInt {
        switch self {
        case .plain(let socket): socket.descriptor
        case .tls(let stream): stream.descriptor
        case .closed: -1  // poll(2) ignores it.
        }
    }

    /// Whether there are decrypted bytes that poll(2) does not know of.
    var hasPending: Bool {
        switch self {
        case .plain: false
        case .closed: false
        case .tls(let stream): stream.hasPending
        }
    }

    /// The error of the connect once the descriptor is writable: `nil` when it succeeded.
    func connectError() -> CInt? {
        switch self {
        case .plain(let socket): socket.connectError()
        case .tls: nil
        case .closed: nil
        }
    }

    /// Starts TLS on the socket. A failure closes it.
    mutating func secure(host: String, _ context: TLSContext) throws(TLSError) {
        switch consume self {
        case .plain(let socket):
            self = .closed
            self = .tls(try TLSStream(client: socket, host: host, wantedProtocol: nil, context))
        case .tls(let stream): self = .tls(stream)
        case .closed: self = .closed
        }
    }

    mutating func handshake() -> Progress { with({ _ in .done(0) }, { $0.handshake() }) }

    mutating func read(into buffer: inout [UInt8]) -> Progress {
        unsafe buffer.withUnsafeMutableBytes { bytes in with({ unsafe $0.read(into: bytes) }, { unsafe $0.read(into: bytes) }) }
    }

    /// Writes the bytes from `start` on.
    mutating func write(_ bytes: [UInt8], from start: Int) -> Progress {
        unsafe bytes.withUnsafeBytes { all in
            let rest = unsafe UnsafeRawBufferPointer(rebasing: all[start...])
            return with({ unsafe $0.write(rest) }, { unsafe $0.write(rest) })
        }
    }

    private mutating func with(
        _ plain: (borrowing Socket) -> Progress, _ tls: (inout TLSStream) -> Progress
    ) -> Progress {
        switch consume self {
        case .plain(let socket):
            let progress = plain(socket)
            self = .plain(socket)
            return progress
        case .tls(var stream):
            let progress = tls(&stream)
            self = .tls(stream)
            return progress
        case .closed:
            self = .closed
            return .closed
        }
    }
}
