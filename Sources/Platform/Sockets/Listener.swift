import CLinux
import Glibc

/// A listening TCP socket on the loopback interface or another address of this machine.
public struct Listener: ~Copyable, Sendable {
    public let descriptor: CInt
    /// The bound address, with the port that the kernel chose if 0 was requested.
    public let address: SocketAddress
    public var port: Int { address.port }

    /// The address at which a listener accepts connections to every address of the machine, in both families unless the kernel
    /// has only IPv4.
    public static let everyAddress: String = {
        let descriptor = socket(AF_INET6, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 || errno != EAFNOSUPPORT else { return "0.0.0.0" }
        if descriptor >= 0 { close(descriptor) }
        return "::"
    }()

    /// Blocks while the host's name is resolved, if it is one.
    ///
    /// - Parameter port: 0 lets the kernel choose a free one.
    public init(host: String = "127.0.0.1", port: Int, backlog: CInt = 512) throws(SocketError) {
        guard let address = try SocketAddress.resolve(host: host, port: port).first else {
            throw .unresolvable(host: host, reason: "no address")
        }
        try self.init(at: address, backlog: backlog)
    }

    /// - Parameter other: the descriptor of a listener that may have the same port at an overlapping address, because this one
    ///   replaces it.
    public init(at address: SocketAddress, backlog: CInt = 512, beside other: CInt? = nil) throws(SocketError) {
        if let other { Listener.sharePort(of: other, true) }
        defer { if let other { Listener.sharePort(of: other, false) } }
        let descriptor = try Listener.open(address, backlog: backlog, sharesPort: other != nil)
        self.descriptor = descriptor
        // getsockname(2) does not fail on a listener.
        self.address = unsafe SocketAddress(of: descriptor, getsockname) ?? address
    }

    private static func sharePort(of descriptor: CInt, _ isShared: Bool) {
        var value: CInt = isShared ? 1 : 0
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &value, socklen_t(MemoryLayout<CInt>.size))
    }

    private static func open(_ address: SocketAddress, backlog: CInt, sharesPort: Bool) throws(SocketError) -> CInt {
        let type = CInt(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(address.family, type, 0)
        guard descriptor >= 0 else { throw .system("socket", errno: errno) }
        var on: CInt = 1
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<CInt>.size))
        if sharesPort { sharePort(of: descriptor, true) }
        if address.isUnspecified, address.family == AF_INET6 {
            // The default may be 1 (bindv6only, ipv6(7)).
            var off: CInt = 0
            unsafe setsockopt(descriptor, CInt(IPPROTO_IPV6), IPV6_V6ONLY, &off, socklen_t(MemoryLayout<CInt>.size))
        }
        let bound = unsafe address.bytes.withUnsafeBytes { raw in
            unsafe bind(descriptor, raw.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(raw.count))
        }
        if bound == 0 && listen(descriptor, backlog) == 0 {
            // From now on no other process gets the port.
            if sharesPort { sharePort(of: descriptor, false) }
            return descriptor
        }
        let code = errno
        close(descriptor)
        throw .system("listen on \(address)", errno: code)
    }

    deinit { close(descriptor) }

    /// Returns the next waiting connection, or `nil` if there is none or accepting it failed.
    public func accept() -> Socket? { try? acceptNext() }

    /// Returns the next waiting connection, or `nil` if there is none. Throws if descriptors or memory are exhausted: the
    /// connection keeps waiting, and poll(2) returns at once.
    public func acceptNext() throws(SocketError) -> Socket? {
        let flags = CInt(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let connection = accept4(descriptor, nil, nil, flags)
        guard connection >= 0 else {
            if [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno) { throw .system("accept", errno: errno) }
            return nil
        }
        var on: CInt = 1
        unsafe setsockopt(connection, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
        return Socket(owning: connection)
    }
}
