import Glibc

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
