internal import Sockets

/// What carries the bytes: a socket as it is, or TLS on it.
enum Transport: ~Copyable {
    case plain(Socket)
    case tls(TLSStream)
    /// TLS could not be set up, and the socket is gone with it.
    case closed

    var descriptor: CInt {
        switch self {
        case .plain(let socket): socket.descriptor
        case .tls(let stream): stream.descriptor
        case .closed: -1  // poll(2) ignores it.
        }
    }

    /// Decrypted bytes that poll(2) does not know of.
    var hasPending: Bool {
        switch self {
        case .plain: false
        case .closed: false
        case .tls(let stream): stream.hasPending
        }
    }

    /// What became of the connecting, once the descriptor is writable: `nil` when it worked.
    func connectError() -> CInt? {
        switch self {
        case .plain(let socket): socket.connectError()
        case .tls: nil
        case .closed: nil
        }
    }

    /// Puts TLS on the socket.
    mutating func secure(host: String, _ context: TLSContext) throws(TLSError) {
        switch consume self {
        case .plain(let socket):
            do throws(TLSError) {
                self = .tls(try TLSStream(client: socket, host: host, wantedProtocol: nil, context))
            } catch {
                self = .closed
                throw error
            }
        case .tls(let stream): self = .tls(stream)
        case .closed: self = .closed
        }
    }

    mutating func handshake() -> Progress {
        switch consume self {
        case .plain(let socket):
            self = .plain(socket)
            return .done(0)
        case .tls(var stream):
            let progress = stream.handshake()
            self = .tls(stream)
            return progress
        case .closed:
            self = .closed
            return .closed
        }
    }

    mutating func read(into buffer: inout [UInt8]) -> Progress {
        switch consume self {
        case .plain(let socket):
            let progress = buffer.withUnsafeMutableBytes { socket.read(into: $0) }
            self = .plain(socket)
            return progress
        case .tls(var stream):
            let progress = buffer.withUnsafeMutableBytes { stream.read(into: $0) }
            self = .tls(stream)
            return progress
        case .closed:
            self = .closed
            return .closed
        }
    }

    /// Writes what of `bytes` lies at `start` and after.
    mutating func write(_ bytes: [UInt8], from start: Int) -> Progress {
        switch consume self {
        case .plain(let socket):
            let progress = bytes.withUnsafeBytes { socket.write(UnsafeRawBufferPointer(rebasing: $0[start...])) }
            self = .plain(socket)
            return progress
        case .tls(var stream):
            let progress = bytes.withUnsafeBytes { stream.write(UnsafeRawBufferPointer(rebasing: $0[start...])) }
            self = .tls(stream)
            return progress
        case .closed:
            self = .closed
            return .closed
        }
    }
}
