internal import CLinux
import Glibc

/// Receives the messages of a daemon to the service manager, as systemd does (sd_notify(3)).
public final class ServiceManager {
    /// The value of NOTIFY_SOCKET.
    public let name: String
    private let descriptor: CInt
    private var received: [String] = []

    /// - Parameter name: a path, or an abstract name after `@`.
    public init(_ name: String) throws(HarnessError) {
        self.name = name
        descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let isAbstract = name.hasPrefix("@")
        let path = isAbstract ? [0] + Array(name.utf8.dropFirst()) : Array(name.utf8) + [0]
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + path.count)
        let status = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(descriptor, $0, length) }
        }
        guard status == 0 else { throw HarnessError("cannot bind \(name): errno \(errno)") }
    }

    deinit { close(descriptor) }

    /// All messages so far, oldest first.
    public var messages: [String] {
        var buffer = [UInt8](repeating: 0, count: 8192)
        while true {
            let count = unsafe recv(descriptor, &buffer, buffer.count, 0)
            guard count >= 0 else { return received }
            received.append(String(decoding: buffer[..<count], as: UTF8.self))
        }
    }

    /// The assignments of all messages so far, oldest first.
    public var assignments: [String] { messages.flatMap { $0.split(separator: "\n").map(String.init) } }

    /// The changes of state so far, oldest first: without status, watchdog and times.
    public var changes: [String] {
        assignments.filter { line in ["READY=", "RELOADING=", "STOPPING="].contains { line.hasPrefix($0) } }
    }
}
