import Glibc
import JSONBytes
import Platform

/// Reads a small file completely.
enum FileBytes {
    /// The reason why a file cannot be read.
    struct Fault: Error, Equatable, CustomStringConvertible {
        var description: String

        static func system(_ code: CInt) -> Fault { unsafe Fault(description: String(cString: strerror(code))) }
    }

    /// The longest wait for a pipe.
    static let timeout = Duration.seconds(2)

    static func read(_ path: String, atMost most: Int) throws(Fault) -> [UInt8] {
        // Without O_NONBLOCK, opening a named pipe waits for a writer (fifo(7)).
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw .system(errno) }
        defer { close(descriptor) }
        let deadline = Instant.now + timeout
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            guard isReady(descriptor, by: deadline) else { throw Fault(description: "no data within \(timeout)") }
            let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
            if count == 0 { return bytes }
            if count < 0 {
                if errno == EINTR { continue }
                throw .system(errno)
            }
            bytes += buffer[..<count]
            guard bytes.count <= most else { throw Fault(description: "more than \(most) bytes") }
        }
    }

    /// A file is always ready; a pipe is ready once it has data or its writer has closed it.
    private static func isReady(_ descriptor: CInt, by deadline: Instant) -> Bool {
        var poller = Poller()
        poller.add(descriptor, for: .read)
        poller.wait(until: deadline)
        return !poller.readiness(at: 0).isEmpty
    }
}

extension [UInt8] {
    private static let byteOrderMark: Self = [0xEF, 0xBB, 0xBF]

    /// The bytes without the byte order mark that some editors write first. A text in UTF-16, which has one, becomes UTF-8.
    var withoutByteOrderMark: Self {
        if starts(with: Self.byteOrderMark) { return Array(dropFirst(Self.byteOrderMark.count)) }
        let isLittle = starts(with: [0xFF, 0xFE])
        guard isLittle || starts(with: [0xFE, 0xFF]), count.isMultiple(of: 2) else { return self }
        let units = stride(from: 2, to: count, by: 2).map { place in
            let (first, second) = (UInt16(self[place]), UInt16(self[place + 1]))
            return isLittle ? second << 8 | first : first << 8 | second
        }
        return String(validating: units, as: UTF16.self).map { Array($0.utf8) } ?? self
    }
}
