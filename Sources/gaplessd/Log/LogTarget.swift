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
}
