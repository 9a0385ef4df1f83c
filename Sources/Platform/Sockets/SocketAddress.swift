import CLinux
import Glibc

/// An address to connect to: IPv4 or IPv6 with a port, or the path of a Unix socket.
public struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    let family: CInt
    let bytes: [UInt8]  // a sockaddr_in, sockaddr_in6 or sockaddr_un, as connect(2) expects it
    /// `127.0.0.1:6379`, `[::1]:443` or `/run/redis.sock`.
    public let description: String

    /// The second 16-bit word of both sockaddr_in and sockaddr_in6, in network order.
    var port: Int { Int(bytes[2]) << 8 | Int(bytes[3]) }

    /// Whether a listener at this address accepts connections to every address of the machine.
    public var isUnspecified: Bool { IPAddress(self)?.isUnspecified ?? false }

    public static func == (left: Self, right: Self) -> Bool { left.bytes == right.bytes }
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }

    /// Makes the address of a Unix socket. Throws for an empty path and for one longer than 107 bytes, the size of
    /// sockaddr_un.
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

    /// Copies an address of getaddrinfo(3) or accept(2).
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

    /// Asks getsockname(2) or getpeername(2). Returns `nil` for a connection that broke.
    init?(of descriptor: CInt, _ call: (CInt, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> CInt) {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let found = unsafe withUnsafeMutableBytes(of: &storage) { raw -> SocketAddress? in
            let address = unsafe raw.baseAddress!.assumingMemoryBound(to: sockaddr.self)
            return unsafe call(descriptor, address, &length) == 0 ? SocketAddress(address, length: length) : nil
        }
        guard let found else { return nil }
        self = found
    }

    /// Returns every address of a host, in both families, in the order of the resolver. Blocks: call it on an owned thread.
    public static func resolve(host: String, port: Int) throws(SocketError) -> [SocketAddress] {
        try resolve(host, port, flags: AI_NUMERICSERV)
    }

    /// Returns the address that `host` is, without a look-up. `nil` if it is a name.
    public static func numeric(host: String, port: Int) -> SocketAddress? {
        try? resolve(host, port, flags: AI_NUMERICSERV | AI_NUMERICHOST).first
    }

    private static func resolve(_ host: String, _ port: Int, flags: CInt) throws(SocketError) -> [SocketAddress] {
        var hints = unsafe addrinfo()
        unsafe hints.ai_family = AF_UNSPEC
        unsafe hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        unsafe hints.ai_flags = flags
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

/// An IPv4 or IPv6 address without a port. An IPv4 address that is mapped into IPv6 (RFC 4291, 2.5.5.2) equals the IPv4 address.
public struct IPAddress: Sendable, Hashable {
    /// In network order: 4 or 16 bytes.
    private let bytes: [UInt8]

    /// Parses `127.0.0.1`, `::1` or `fe80::1%eth0`, of which the zone is dropped. Returns `nil` for any other text.
    public init?(_ text: String) {
        let address = String(text.prefix { $0 != "%" })
        guard let bytes = Self.bytes(of: address, AF_INET, count: 4) ?? Self.bytes(of: address, AF_INET6, count: 16) else {
            return nil
        }
        self.init(bytes: bytes)
    }

    /// The address at its place in a `sockaddr_in` or `sockaddr_in6`. Returns `nil` for a Unix socket.
    init?(_ address: SocketAddress) {
        switch address.family {
        case AF_INET where address.bytes.count >= 8: self.init(bytes: Array(address.bytes[4..<8]))
        case AF_INET6 where address.bytes.count >= 24: self.init(bytes: Array(address.bytes[8..<24]))
        default: return nil
        }
    }

    private init(bytes: [UInt8]) {
        let isMapped = bytes.count == 16 && bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        self.bytes = isMapped ? Array(bytes[12...]) : bytes
    }

    /// 127.0.0.0/8 (RFC 1122, 3.2.1.3) or ::1 (RFC 4291, 2.5.3).
    public var isLoopback: Bool {
        bytes.count == 4 ? bytes[0] == 127 : bytes.last == 1 && bytes.dropLast().allSatisfy { $0 == 0 }
    }

    /// 0.0.0.0 or ::, at which a listener accepts connections to every address of the machine.
    var isUnspecified: Bool { bytes.allSatisfy { $0 == 0 } }

    private static func bytes(of text: String, _ family: CInt, count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return unsafe inet_pton(family, text, &bytes) == 1 ? bytes : nil
    }
}
