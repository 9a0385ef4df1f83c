/// A client's byte stream: a socket, or TLS on it.
public enum Transport: ~Copyable {
    case plain(Socket)
    case tls(TLSStream)
    /// TLS could not be set up, and the socket is closed.
    case closed

    public var descriptor: CInt {
        switch self {
        case .plain(let socket): socket.descriptor
        case .tls(let stream): stream.descriptor
        case .closed: -1  // poll(2) ignores it.
        }
    }

    /// Whether there are decrypted bytes that poll(2) does not know of.
    public var hasPending: Bool {
        switch self {
        case .plain: false
        case .closed: false
        case .tls(let stream): stream.hasPending
        }
    }

    /// The error of the connect once the descriptor is writable: `nil` when it succeeded.
    public func connectError() -> CInt? {
        switch self {
        case .plain(let socket): socket.connectError()
        case .tls: nil
        case .closed: nil
        }
    }

    /// Starts TLS on the socket. A failure closes it.
    public mutating func secure(host: String, _ context: TLSContext) throws(TLSError) {
        switch consume self {
        case .plain(let socket):
            self = .closed
            self = .tls(try TLSStream(client: socket, host: host, wantedProtocol: nil, context))
        case .tls(let stream): self = .tls(stream)
        case .closed: self = .closed
        }
    }

    public mutating func handshake() -> Progress { with({ _ in .done(0) }, { $0.handshake() }) }

    public mutating func read(into buffer: inout [UInt8]) -> Progress {
        unsafe buffer.withUnsafeMutableBytes { bytes in with({ unsafe $0.read(into: bytes) }, { unsafe $0.read(into: bytes) }) }
    }

    /// Writes the bytes from `start` on.
    public mutating func write(_ bytes: [UInt8], from start: Int) -> Progress {
        unsafe bytes.withUnsafeBytes { all in
            let rest = unsafe UnsafeRawBufferPointer(rebasing: all[start...])
            return with({ unsafe $0.write(rest) }, { unsafe $0.write(rest) })
        }
    }

    private mutating func with(_ plain: (borrowing Socket) -> Progress, _ tls: (inout TLSStream) -> Progress) -> Progress {
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
