import Glibc

/// The kind of file behind a descriptor of the log.
enum LogTarget: Sendable {
    case file, socket, terminal, other

    init(descriptor: CInt) {
        var status = stat()
        // A closed descriptor is treated as a file, so that the write fails; poll(2) would not report it.
        guard unsafe fstat(descriptor, &status) == 0 else {
            self = .file
            return
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG: self = .file
        case S_IFSOCK: self = .socket
        default: self = isatty(descriptor) == 1 ? .terminal : .other
        }
    }

    /// Whether both descriptors lead to the same file, pipe or socket.
    static func isSameFile(_ first: CInt, _ second: CInt) -> Bool {
        var (one, other) = (stat(), stat())
        guard unsafe fstat(first, &one) == 0, unsafe fstat(second, &other) == 0 else { return false }
        return one.st_dev == other.st_dev && one.st_ino == other.st_ino
    }
}
