import CLinux
import Glibc

/// One descriptor that receives lines, on the log writer's thread.
///
/// Other programs may share the descriptor, so its flags stay (O_NONBLOCK would be theirs, too). Each write is preceded by
/// poll(2) and is small enough not to block.
struct LogSink: ~Copyable {
    let descriptor: CInt
    private let target: LogTarget
    private var lines: [UInt8] = []
    private var written = 0
    /// Whether the last line was written only in part: the next line must not continue it.
    private var isMidLine = false

    init(descriptor: CInt) {
        self.descriptor = descriptor
        target = LogTarget(descriptor: descriptor)
    }

    /// Whether all lines taken are written or dropped.
    var isEmpty: Bool { lines.isEmpty }

    /// Takes over lines and leaves an empty buffer with its memory in their place.
    mutating func take(_ waiting: inout [UInt8]) {
        swap(&lines, &waiting)
    }

    /// Writes as much as the descriptor takes now. Returns the number of lines dropped because a write failed.
    mutating func write() -> Int {
        if isMidLine, !lines.isEmpty {
            lines.insert(UInt8(ascii: "\n"), at: 0)
            isMidLine = false
        }
        while written < lines.count {
            guard isWritable() else { return 0 }
            let count = writeSome()
            if count > 0 {
                written += count
            } else if errno != EINTR {
                return errno == EAGAIN ? 0 : drop()
            }
        }
        clear()
        return 0
    }

    private mutating func clear() {
        lines.removeAll(keepingCapacity: true)
        written = 0
    }

    /// Drops the rest after an error, such as a full disk or a closed pipe. The next lines are tried again.
    private mutating func drop() -> Int {
        isMidLine = written > 0 && lines[written - 1] != UInt8(ascii: "\n")
        let dropped = lines[written...].count { $0 == UInt8(ascii: "\n") }
        clear()
        return dropped
    }

    private func isWritable() -> Bool {
        if target == .file { return true }
        var one = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return unsafe poll(&one, 1, 0) > 0
    }

    private func writeSome() -> Int {
        unsafe lines.withUnsafeBytes { raw in
            let rest = unsafe UnsafeRawBufferPointer(rebasing: raw[written...])
            switch target {
            case .file: return unsafe Glibc.write(descriptor, rest.baseAddress, min(rest.count, 1 << 20))
            case .socket: return unsafe send(descriptor, rest.baseAddress, rest.count, CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL))
            // A pipe that is ready has room for PIPE_BUF bytes (pipe(7), poll(2)). A terminal takes less at once.
            case .terminal, .other: return unsafe Glibc.write(descriptor, rest.baseAddress, min(rest.count, 4096))
            }
        }
    }
}
