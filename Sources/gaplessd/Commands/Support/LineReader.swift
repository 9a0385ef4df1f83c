import Glibc
import Platform
import RedisQueue

/// Reads the lines of a file or a pipe. Memory use: one line and one read buffer.
struct LineReader: ~Copyable {
    /// Bytes of the longest line.
    static let longestLine = ClaimedJob.mostBytes

    enum Line: Equatable {
        /// A line without its line end (LF or CR LF).
        case line([UInt8])
        /// A line longer than `longestLine`; its bytes are discarded.
        case tooLong
        /// The pipe is empty. The next call waits for input.
        case pause
    }

    private let descriptor: CInt
    private var chunk = [UInt8](repeating: 0, count: 256 << 10)
    private var unread = 0..<0
    private var begun: [UInt8] = []
    private var isTooLong = false
    private var mayWait = false
    /// The number of the last line returned, starting at 1.
    private(set) var number = 0
    /// Bytes read so far.
    private(set) var bytesRead = 0
    /// The size of a regular file when it was opened; `nil` for a pipe.
    let size: Int?

    /// Throws if the file cannot be read. Does not open it: the writer of a named pipe would see a reader that leaves.
    static func check(_ path: String) throws(FileBytes.Fault) {
        if path == "-" { return }
        var facts = stat()
        guard unsafe stat(path, &facts) == 0, unsafe access(path, R_OK) == 0 else { throw .system(errno) }
        if facts.st_mode & S_IFMT == S_IFDIR { throw .system(EISDIR) }
    }

    /// - Parameter path: `-` is standard input.
    init(_ path: String) throws(FileBytes.Fault) {
        let descriptor = unsafe path == "-" ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system(errno) }
        var facts = stat()
        guard unsafe fstat(descriptor, &facts) == 0 else {
            let code = errno
            close(descriptor)
            throw .system(code)
        }
        self.descriptor = descriptor
        size = facts.st_mode & S_IFMT == S_IFREG ? Int(facts.st_size) : nil
    }

    deinit { close(descriptor) }

    /// Returns the next line, or `nil` at the end. The last line may lack its line end. A byte order mark at the beginning is no
    /// part of the first line.
    mutating func next() throws(FileBytes.Fault) -> Line? {
        while true {
            if unread.isEmpty {
                if !mayWait, !isReadable {
                    mayWait = true
                    return .pause
                }
                mayWait = false
                guard try read() else { return begun.isEmpty && !isTooLong ? nil : endLine() }
            }
            let end = newline()
            take(unread.lowerBound..<(end ?? unread.upperBound))
            if let end {
                unread = end + 1..<unread.upperBound
                return endLine()
            }
            unread = 0..<0
        }
    }

    private mutating func take(_ piece: Range<Int>) {
        // One byte more: a CR of the line end is not part of the line.
        if begun.count + piece.count > LineReader.longestLine + 1 {
            isTooLong = true
            begun = []
        }
        if !isTooLong { begun += chunk[piece] }
    }

    private mutating func endLine() -> Line {
        defer {
            begun = []
            isTooLong = false
        }
        number += 1
        if number == 1 { begun = begun.withoutByteOrderMark }
        if begun.last == UInt8(ascii: "\r") { begun.removeLast() }
        return isTooLong || begun.count > LineReader.longestLine ? .tooLong : .line(begun)
    }

    private func newline() -> Int? {
        unsafe chunk.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress,
                let found = unsafe memchr(start + unread.lowerBound, CInt(UInt8(ascii: "\n")), unread.count)
            else { return nil }
            return unsafe UnsafeRawPointer(found) - start
        }
    }

    /// Whether a read returns immediately.
    private var isReadable: Bool {
        var poller = Poller()
        let place = poller.add(descriptor, for: .read)
        poller.wait(until: .now)
        return !poller.readiness(at: place).isEmpty
    }

    /// Returns `false` at the end of the input.
    private mutating func read() throws(FileBytes.Fault) -> Bool {
        while true {
            let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0 {
                if errno == EINTR { continue }
                if errno == EAGAIN {
                    var poller = Poller()
                    poller.add(descriptor, for: .read)
                    poller.wait(until: nil)
                    continue
                }
                throw .system(errno)
            }
            unread = 0..<count
            bytesRead += count
            return count > 0
        }
    }
}
