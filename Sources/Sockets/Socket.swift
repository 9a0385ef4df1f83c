import CLinux
import Glibc

/// One non-blocking stream socket, closed when it goes.
public struct Socket: ~Copyable {
    public let descriptor: CInt

    init(owning descriptor: CInt) {
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Begins to connect. It is connected once the descriptor is writable and `connectError()` says `nil`.
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
        // A Unix socket whose backlog is full answers EAGAIN and would never become writable: that is a failure here.
        close(descriptor)
        throw .system("connect to \(address)", errno: code)
    }

    /// What became of `connect`, once the descriptor is writable: `nil` when it worked.
    public func connectError() -> CInt? {
        var code: CInt = 0
        var length = socklen_t(MemoryLayout<CInt>.size)
        unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
        return code == 0 ? nil : code
    }

    /// Ends the connection when data written stays unacknowledged for so long (TCP_USER_TIMEOUT), where the kernel
    /// alone would go on for a quarter of an hour. Without meaning, and without effect, on a Unix socket.
    public func setUserTimeout(_ limit: Duration) {
        let (seconds, attoseconds) = limit.components
        setOption(CInt(IPPROTO_TCP), TCP_USER_TIMEOUT, CInt(seconds * 1000 + attoseconds / 1_000_000_000_000_000))
    }

    /// The addresses of both ends; `nil` for a Unix socket and for a connection that broke.
    public var addresses: (local: IPAddress?, peer: IPAddress?) {
        unsafe (Self.address(descriptor, getsockname), Self.address(descriptor, getpeername))
    }

    private static func address(
        _ descriptor: CInt, _ call: (CInt, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> CInt
    ) -> IPAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return unsafe withUnsafeMutableBytes(of: &storage) { raw in
            let address = unsafe raw.baseAddress!.assumingMemoryBound(to: sockaddr.self)
            return unsafe call(descriptor, address, &length) == 0 ? IPAddress(SocketAddress(address, length: length)) : nil
        }
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
        // A socket that refuses a tuning option still works, slower or with the kernel's own limit.
        unsafe setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<CInt>.size))
    }
}
