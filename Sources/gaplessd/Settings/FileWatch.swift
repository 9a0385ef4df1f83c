import CLinux
import Glibc
import Platform

/// Decides when changed files are read again (`watch_files`): when two looks in a row find the same change, so that a file
/// that is being written or replaced is left alone.
struct FileWatch {
    /// Two looks and the reload take less than two seconds.
    static let interval = Duration.milliseconds(750)

    private(set) var paths: Set<String>
    private(set) var nextLook: Instant
    /// The files as they were last read.
    private var known: [String: FileStamp]
    /// The change that the previous look found.
    private var change: [String: FileStamp]?

    /// - Parameter stamps: the files as they were read.
    init(_ paths: Set<String>, _ stamps: [String: FileStamp], now: Instant) {
        (self.paths, known) = (paths, stamps)
        nextLook = now + Self.interval
    }

    /// The files were read, whether they were valid or not: from now on these paths are watched.
    mutating func didRead(_ paths: Set<String>, _ stamps: [String: FileStamp]) {
        (self.paths, known, change) = (paths, stamps, nil)
    }

    /// These files are watched as well. They were read just now.
    mutating func add(_ files: Set<String>) {
        paths.formUnion(files)
        known.merge(FileStamp.stamps(of: files)) { $1 }
    }

    /// Returns whether to read the files now.
    mutating func looked(_ stamps: [String: FileStamp], now: Instant) -> Bool {
        nextLook = now + Self.interval
        guard stamps != known else {
            change = nil
            return false
        }
        guard stamps == change else {
            change = stamps
            return false
        }
        (known, change) = (stamps, nil)
        return true
    }
}

/// The identity and the last change of a file, from stat(2). It differs after a replacement, a write or a truncation.
struct FileStamp: Equatable, Sendable {
    var device: UInt64
    var inode: UInt64
    var bytes: Int64
    /// `st_ctim` since 1970: unlike the time of modification, no program can set it back.
    var changed: Duration

    /// The stamps of the files that exist.
    static func stamps(of paths: Set<String>) -> [String: FileStamp] {
        Dictionary(uniqueKeysWithValues: paths.compactMap { path in FileStamp(path: path).map { (path, $0) } })
    }
}

extension FileStamp {
    /// `nil` if there is no such file. Follows symbolic links.
    init?(path: String) {
        var facts = stat()
        guard unsafe stat(path, &facts) == 0 else { return nil }
        self.init(
            device: UInt64(facts.st_dev), inode: UInt64(facts.st_ino), bytes: Int64(facts.st_size),
            changed: .seconds(facts.st_ctim.tv_sec) + .nanoseconds(facts.st_ctim.tv_nsec))
    }
}
