import Glibc

/// A small file of the state folder, for other processes and the next start: the provider token of one key, or the last figures
/// of a list.
///
/// A token is a secret, so a file that other users can access is not used. rename(2) replaces it as a whole, so that readers
/// need no lock; a writer holds the lock of a second file.
public struct StateFile: Sendable {
    /// The reason why the file cannot be used, for the operator.
    public struct Fault: Error, Equatable, CustomStringConvertible {
        public var description: String

        static func system(_ what: String, _ code: CInt) -> Fault {
            Fault(description: unsafe "\(what): \(String(cString: strerror(code)))")
        }
    }

    /// Holds the lock for as long as it lives.
    public struct Lock: ~Copyable {
        fileprivate let descriptor: CInt

        /// Unlocks before it closes: between fork and exec a child process shares the descriptor, and flock(2) holds a lock until
        /// its last copy is closed.
        deinit {
            flock(descriptor, LOCK_UN)
            close(descriptor)
        }
    }

    /// The largest content; a token has fewer than 300 bytes, figures fewer than 200.
    private static let mostBytes = 4096

    private let folder: String
    public let path: String

    public init(folder: String, name: String) {
        self.folder = folder
        path = "\(folder)/\(name)"
    }

    /// Returns the content, or `nil` if there is no file yet.
    public func read() throws(Fault) -> [UInt8]? {
        let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        if descriptor < 0 {
            if errno == ENOENT { return nil }
            throw .system(path, errno)
        }
        defer { close(descriptor) }
        try checkOwner(descriptor)
        var bytes = [UInt8](repeating: 0, count: Self.mostBytes)
        let count = unsafe Glibc.read(descriptor, &bytes, bytes.count)
        if count < 0 { throw .system(path, errno) }
        return Array(bytes[..<count])
    }

    private func checkOwner(_ descriptor: CInt) throws(Fault) {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw .system(path, errno) }
        if status.st_mode & S_IFMT != S_IFREG { throw Fault(description: "\(path) is not a regular file") }
        // Root reads what the user of the service has written.
        if status.st_uid != geteuid(), owner.map({ status.st_uid != $0.user }) ?? true {
            throw Fault(description: "\(path) belongs to another user; give it to the user of the service (chown)")
        }
        if status.st_mode & 0o077 != 0 { throw Fault(description: "\(path) is accessible to other users; expected mode 600") }
    }

    /// The owner of the folder, if this process is root's and the folder is not: the files are for that user.
    private var owner: (user: uid_t, group: gid_t)? {
        var status = stat()
        guard geteuid() == 0, unsafe stat(folder, &status) == 0, status.st_uid != 0 else { return nil }
        return (status.st_uid, status.st_gid)
    }

    /// Gives a file that root has made to the user of the service.
    private func giveAway(_ descriptor: CInt) throws(Fault) {
        guard let owner else { return }
        var status = stat()
        // Nothing that existed elsewhere: a link to it has two names.
        guard unsafe fstat(descriptor, &status) == 0, status.st_uid == 0, status.st_nlink == 1, status.st_mode & S_IFMT == S_IFREG
        else { return }
        if fchown(descriptor, owner.user, owner.group) != 0 { throw .system(path, errno) }
    }

    private var lockPath: String { "\(path).lock" }

    /// The error while another process holds the lock.
    public var isHeld: Fault { Fault(description: "\(lockPath) is held by another process") }

    /// Returns the lock, or `nil` if another process holds it.
    public func tryLock() throws(Fault) -> Lock? {
        try makeFolder()
        let descriptor = unsafe open(lockPath, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        if descriptor < 0 { throw .system(lockPath, errno) }
        let lock = Lock(descriptor: descriptor)
        try giveAway(descriptor)
        if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return lock }
        let code = errno
        guard code == EWOULDBLOCK || code == EINTR else { throw .system(lockPath, code) }
        return nil
    }

    /// Returns the error that storing the first token would cause, or `nil`. Leaves no files.
    public func faultOfKeeping() -> Fault? {
        do {
            _ = try read()
            // Another process may hold the lock at this moment: opening it is enough.
            if unsafe access(lockPath, F_OK) == 0 { return try tryOpen(lockPath, O_RDWR, saying: lockPath) }
            let made = try makeFolder()
            defer { for folder in made.reversed() { unsafe rmdir(folder) } }
            let probe = "\(path).\(getpid())"
            defer { unsafe unlink(probe) }
            return try tryOpen(probe, O_RDWR | O_CREAT | O_EXCL, saying: lockPath)
        } catch { return error }
    }

    private func tryOpen(_ path: String, _ flags: CInt, saying name: String) throws(Fault) -> Fault? {
        let descriptor = unsafe open(path, flags | O_NOFOLLOW | O_CLOEXEC, 0o600)
        if descriptor < 0 { throw .system(name, errno) }
        close(descriptor)
        return nil
    }

    /// Replaces the content.
    public func write(_ bytes: [UInt8], holding lock: borrowing Lock) throws(Fault) {
        // A crash may have left this file; no other process writes while this one holds the lock.
        let new = "\(path).new"
        unsafe unlink(new)
        let descriptor = unsafe open(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        if descriptor < 0 { throw .system(new, errno) }
        do {
            try giveAway(descriptor)
        } catch {
            close(descriptor)
            unsafe unlink(new)
            throw error
        }
        let count = unsafe Glibc.write(descriptor, bytes, bytes.count)
        let code = errno
        close(descriptor)
        guard count == bytes.count else {
            unsafe unlink(new)
            throw .system(new, count < 0 ? code : ENOSPC)
        }
        if unsafe rename(new, path) != 0 { throw .system(path, errno) }
    }

    /// Creates the folder and its parents, accessible to this user only.
    ///
    /// - Returns: the folders that it created.
    @discardableResult
    private func makeFolder() throws(Fault) -> [String] {
        if unsafe mkdir(folder, 0o700) == 0 { return [folder] }
        if errno == EEXIST { return [] }
        var (path, made) = (folder.hasPrefix("/") ? "" : ".", [String]())
        for part in folder.split(separator: "/") {
            path += "/\(part)"
            if unsafe mkdir(path, 0o700) == 0 {
                made.append(path)
            } else if errno != EEXIST {
                let code = errno
                for folder in made.reversed() { unsafe rmdir(folder) }
                throw .system(path, code)
            }
        }
        return made
    }
}
