import CLinux
import Glibc

/// Where to connect: an IPv4 or IPv6 address with its port, or a Unix socket's path.
public struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    let family: CInt
    let bytes: [UInt8]  // a sockaddr_in, sockaddr_in6 or sockaddr_un as connect(2) wants it
    /// `127.0.0.1:6379`, `[::1]:443` or `/run/redis.sock`.
    public let description: String

    public static func == (left: Self, right: Self) -> Bool { left.bytes == right.bytes }
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }

    /// A Unix socket. Fails on a path that is empty or longer than the 107 bytes which sockaddr_un holds.
    public init(unixPath path: String) throws(SocketError) {
        var address = sockaddr_un()
        let room = MemoryLayout.size(ofValue: address.sun_path) - 1
        let utf8 = Array(path.utf8)
        guard (1...room).contains(utf8.count) else { throw .badAddress("a Unix socket's path has 1 to \(room) bytes: \(path)") }
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: utf8) }
        family = AF_UNIX
        bytes = unsafe withUnsafeBytes(of: &address) { unsafe Array($0) }
        description = path
    }

    /// What getaddrinfo(3) and accept(2) hand out.
    init(_ address: UnsafePointer<sockaddr>, length: socklen_t) {
        family = unsafe CInt(address.pointee.sa_family)
        bytes = unsafe Array(UnsafeRawBufferPointer(start: address, count: Int(length)))
        var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        var service = [CChar](repeating: 0, count: Int(NI_MAXSERV))
        let flags = NI_NUMERICHOST | NI_NUMERICSERV
        unsafe getnameinfo(address, length, &host, socklen_t(host.count), &service, socklen_t(service.count), flags)
        let name = String(decoding: host.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let port = String(decoding: service.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        description = family == AF_INET6 ? "[\(name)]:\(port)" : "\(name):\(port)"
    }

    /// Every address of a host, both families, as the resolver orders them. Blocks: call it on a thread you own.
    public static func resolve(host: String, port: Int) throws(SocketError) -> [SocketAddress] {
        var hints = unsafe addrinfo()
        unsafe hints.ai_family = AF_UNSPEC
        unsafe hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        unsafe hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let status = unsafe getaddrinfo(host, String(port), &hints, &list)
        guard status == 0 else {
            throw unsafe .unresolvable(host: host, reason: String(cString: gai_strerror(status)))
        }
        defer { unsafe freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = unsafe list
        while let entry = unsafe next {
            unsafe addresses.append(SocketAddress(entry.pointee.ai_addr, length: entry.pointee.ai_addrlen))
            unsafe next = unsafe entry.pointee.ai_next
        }
        return addresses
    }
}
