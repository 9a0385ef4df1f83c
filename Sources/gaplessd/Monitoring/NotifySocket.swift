import CLinux
import Glibc

/// The socket of the service manager, named by NOTIFY_SOCKET (sd_notify(3)): a path, or an abstract name after `@`.
struct NotifySocket: ~Copyable {
    /// The longest wait of a message, and of the main loop, for room in the queue of the service manager.
    private static let timeout = timeval(tv_sec: 0, tv_usec: 100_000)

    private let descriptor: CInt
    /// The bytes of a sockaddr_un. Those of an abstract name end with the name (unix(7)).
    private let address: [UInt8]

    /// Returns `nil` for a name that is no path, no abstract name, or too long.
    init?(_ name: String) {
        guard let address = Self.address(of: name) else { return nil }
        let type = CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { return nil }
        var timeout = Self.timeout
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        (self.descriptor, self.address) = (descriptor, address)
    }

    deinit { close(descriptor) }

    static func address(of name: String) -> [UInt8]? {
        var address = sockaddr_un()
        let bytes = Array(name.utf8)
        let room = MemoryLayout.size(ofValue: address.sun_path) - 1
        guard let first = bytes.first, bytes.count > 1, bytes.count <= room, !bytes.contains(0) else { return nil }
        let isAbstract = first == UInt8(ascii: "@")
        guard isAbstract || first == UInt8(ascii: "/") else { return nil }
        address.sun_family = sa_family_t(AF_UNIX)
        let path = isAbstract ? [0] + bytes.dropFirst() : bytes + [0]
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
        let start = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? MemoryLayout<sa_family_t>.size
        return unsafe withUnsafeBytes(of: &address) { unsafe Array($0.prefix(start + path.count)) }
    }

    /// Sends one message. Returns the error number if the service manager did not take it.
    func send(_ message: String) -> CInt? {
        let bytes = Array(message.utf8)
        let count = unsafe address.withUnsafeBytes { raw in
            unsafe sendto(
                descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL), raw.baseAddress!.assumingMemoryBound(to: sockaddr.self),
                socklen_t(raw.count))
        }
        return count == bytes.count ? nil : errno
    }
}
