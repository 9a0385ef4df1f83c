import Glibc
import Harness

@testable import RedisQueue

/// A blocking connection to a redis-server: commands out, all their replies in.
final class RedisWire {
    private let socket: CInt
    private var reader = ReplyReader()
    private var buffer = [UInt8](repeating: 0, count: 256 << 10)

    init(path: String) throws {
        socket = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        if status != 0 { throw HarnessError("cannot connect to \(path): errno \(errno)") }
    }

    deinit { close(socket) }

    /// Runs commands that are written in the Redis protocol.
    func run(_ bytes: [UInt8], replies count: Int) throws -> [RedisReply] {
        var written = 0
        while written < bytes.count {
            let done = bytes.withUnsafeBytes { write(socket, $0.baseAddress! + written, bytes.count - written) }
            if done <= 0 { throw HarnessError("redis-server has closed the connection: errno \(errno)") }
            written += done
        }
        var replies: [RedisReply] = []
        while replies.count < count {
            if let reply = try reader.next() {
                replies.append(reply)
                continue
            }
            let done = read(socket, &buffer, buffer.count)
            if done <= 0 { throw HarnessError("redis-server has closed the connection: errno \(errno)") }
            reader.feed(buffer, count: done)
        }
        return replies
    }

    @discardableResult
    func run(_ words: [String]) throws -> RedisReply {
        var bytes: [UInt8] = []
        bytes.appendCommand(Arguments(words))
        return try run(bytes, replies: 1)[0]
    }
}
