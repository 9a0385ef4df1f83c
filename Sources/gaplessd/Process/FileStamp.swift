import Glibc

/// The identity and the last change of a file, from stat(2). It differs after a replacement, a write or a truncation.
struct FileStamp: Equatable, Sendable {
    var device: UInt64
    var inode: UInt64
    var bytes: Int64
    /// `st_ctim` since 1970: unlike the time of modification, no program can set it back.
    var changed: Duration

    init(device: UInt64, inode: UInt64, bytes: Int64, changed: Duration) {
        (self.device, self.inode, self.bytes, self.changed) = (device, inode, bytes, changed)
    }

    /// `nil` if there is no such file. Follows symbolic links.
    init?(path: String) {
        var facts = stat()
        guard unsafe stat(path, &facts) == 0 else { return nil }
        self.init(
            device: UInt64(facts.st_dev), inode: UInt64(facts.st_ino), bytes: Int64(facts.st_size),
            changed: .seconds(facts.st_ctim.tv_sec) + .nanoseconds(facts.st_ctim.tv_nsec))
    }

    /// The stamps of the files that exist.
    static func stamps(of paths: Set<String>) -> [String: FileStamp] {
        Dictionary(uniqueKeysWithValues: paths.compactMap { path in FileStamp(path: path).map { (path, $0) } })
    }
}
