import CLinux
import Glibc

/// One descriptor that lines go to, on the log writer's thread.
///
/// The descriptor may be shared with other programs, so it is left as it is (O_NONBLOCK would be theirs, too): it is asked
/// before each write, and a write is no larger than what then cannot block.
struct LogSink: ~Copyable {
    private enum Kind {
        case file, socket, other

        init(mode: mode_t) {
            switch mode & S_IFMT {
            case S_IFREG: self = .file
            case S_IFSOCK: self = .socket
            default: self = .other
            }
        }
    }

    let descriptor: CInt
    private let kind: Kind
    private var lines: [UInt8] = []
    private var written = 0
    /// Whether the last line was cut off in its middle: the next one must not continue it.
    private var isMidLine = false

    init(descriptor: CInt) {
        self.descriptor = descriptor
        var status = stat()
        // What is no descriptor at all is written to, and fails, like a file; poll(2) would be silent about it.
        kind = fstat(descriptor, &status) != 0 ? .file : Kind(mode: status.st_mode)
    }

    /// Whether everything taken is written, or dropped.
    var isEmpty: Bool { lines.isEmpty }

    /// Takes over lines, and leaves the memory of the last ones in their place.
    mutating func take(_ waiting: inout [UInt8]) {
        swap(&lines, &waiting)
    }

    /// Writes what goes without waiting. Returns how many lines had to be dropped, since the descriptor takes nothing more.
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

    /// A full disk, a closed pipe: what is left is lost, and the next lines find out whether it is better then.
    private mutating func drop() -> Int {
        isMidLine = written > 0 && lines[written - 1] != UInt8(ascii: "\n")
        let dropped = lines[written...].count { $0 == UInt8(ascii: "\n") }
        clear()
        return dropped
    }

    private func isWritable() -> Bool {
        if kind == .file { return true }
        var one = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&one, 1, 0) > 0
    }

    private func writeSome() -> Int {
        lines.withUnsafeBytes { raw in
            let rest = UnsafeRawBufferPointer(rebasing: raw[written...])
            switch kind {
            case .file: return Glibc.write(descriptor, rest.baseAddress, min(rest.count, 1 << 20))
            case .socket: return send(descriptor, rest.baseAddress, rest.count, CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL))
            // A pipe that is ready has room for PIPE_BUF bytes (pipe(7), poll(2)); a terminal for less, and passes on what it gets.
            case .other: return Glibc.write(descriptor, rest.baseAddress, min(rest.count, 4096))
            }
        }
    }
}
