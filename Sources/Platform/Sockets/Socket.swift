import CLinux
import Glibc

/// One non-blocking stream socket, closed by its deinit.
public struct Socket: ~Copyable {
    public let descriptor: CInt

    init(owning descriptor: CInt) {
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Starts to connect. The socket is connected once it is writable and `connectError()` returns `nil`.
    public init(connectingTo address: SocketAddress) throws(SocketError) {
        self.init(owning: try Socket.connect(to: address))
        if address.family != AF_UNIX { setOption(CInt(IPPROTO_TCP), TCP_NODELAY, 1) }
    }

    private static func connect(to address: SocketAddress) throws(SocketError) -> CInt {
        let type = CInt(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(address.family, type, 0)
        guard descriptor >= 0 else { throw .system("socket", errno: errno) }
        let status = unsafe address.bytes.withUnsafeBytes { raw in
            unsafe Glibc.connect(descriptor, raw.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(raw.count))
        }
        let code = errno
        if status == 0 || code == EINPROGRESS { return descriptor }
        // A Unix socket with a full backlog returns EAGAIN and never becomes writable: this counts as a failure.
        close(descriptor)
        throw .system("connect to \(address)", errno: code)
    }

    /// Returns the error of `connect` once the descriptor is writable, or `nil` after success.
    public func connectError() -> CInt? {
        var code: CInt = 0
        var length = socklen_t(MemoryLayout<CInt>.size)
        unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
        return code == 0 ? nil : code
    }

    /// Ends the connection when sent data stays unacknowledged for this time (TCP_USER_TIMEOUT); the kernel's default is 15
    /// minutes. No effect on a Unix socket.
    public func setUserTimeout(_ limit: Duration) {
        let (seconds, attoseconds) = limit.components
        setOption(CInt(IPPROTO_TCP), TCP_USER_TIMEOUT, CInt(seconds * 1000 + attoseconds / 1_000_000_000_000_000))
    }

    /// The addresses of both ends; `nil` for a Unix socket and for a connection that broke.
    public var addresses: (local: IPAddress?, peer: IPAddress?) {
        let ends = unsafe (SocketAddress(of: descriptor, getsockname), SocketAddress(of: descriptor, getpeername))
        return (ends.0.flatMap(IPAddress.init), ends.1.flatMap(IPAddress.init))
    }

    /// Ends this direction of the connection: the peer reads the end of the stream after all bytes written so far.
    public func finishWriting() { shutdown(descriptor, CInt(SHUT_WR)) }

    public func read(into buffer: UnsafeMutableRawBufferPointer) -> Progress {
        while true {
            let count = unsafe recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .done(count) }
            if count == 0 { return .closed }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .needsRead
            case let code: return .failed(.system("read", errno: code))
            }
        }
    }

    public func write(_ bytes: UnsafeRawBufferPointer) -> Progress {
        while true {
            let count = unsafe send(descriptor, bytes.baseAddress, bytes.count, CInt(MSG_NOSIGNAL))
            if count >= 0 { return .done(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .needsWrite
            case let code: return .failed(.system("write", errno: code))
            }
        }
    }

    private func setOption(_ level: CInt, _ name: CInt, _ value: CInt) {
        var value = value
        // A socket that rejects a tuning option still works, with the kernel's default.
        unsafe setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<CInt>.size))
    }
}

/// The result of a non-blocking read, write or handshake.
public enum Progress: Sendable, Equatable {
    /// This many bytes moved (0 for a complete handshake).
    case done(Int)
    case needsRead
    case needsWrite
    /// The peer closed the connection regularly.
    case closed
    case failed(SocketError)
}

/// The reason why there is no connection, or why it ended.
public enum SocketError: Error, Sendable, Equatable, CustomStringConvertible {
    case badAddress(String)
    case unresolvable(host: String, reason: String)
    /// A system call failed: the action, and errno.
    case system(String, errno: CInt)
    case timedOut(String)
    /// A third party, such as a proxy, rejects the connection: a sentence.
    case refused(String)
    case tls(TLSError)

    public var description: String {
        switch self {
        case .badAddress(let why): why
        case .unresolvable(let host, let reason): "cannot resolve \(host): \(reason)"
        case .system(let call, let code): unsafe "\(call): \(String(cString: strerror(code)))"
        case .timedOut(let what): "\(what): timed out"
        case .refused(let why): why
        case .tls(let failure): failure.description
        }
    }
}

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
