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
