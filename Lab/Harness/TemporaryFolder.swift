import Glibc

/// A temporary folder; it is removed with its content when this object ends.
public final class TemporaryFolder: Sendable {
    public let path: String

    /// The longest parent path: the path of a Unix socket has at most 107 bytes.
    private static let longestParent = 70

    /// Makes the folder in TMPDIR, or in /tmp if TMPDIR is unset or too long.
    public init() {
        let wanted = unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
        let parent = wanted.utf8.count <= TemporaryFolder.longestParent ? wanted : "/tmp"
        var template = Array("\(parent)/gapless-XXXXXX".utf8CString)
        let made = unsafe mkdtemp(&template)
        unsafe precondition(made != nil, "cannot make a folder in \(parent): errno \(errno)")
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit { TemporaryFolder.remove(path) }

    public func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Removes a folder with its content; it removes links and does not follow them.
    private static func remove(_ path: String) {
        for name in folderEntries(path) {
            let inside = "\(path)/\(name)"
            var facts = stat()
            guard unsafe lstat(inside, &facts) == 0 else { continue }
            if facts.st_mode & S_IFMT == S_IFDIR { remove(inside) } else { unsafe unlink(inside) }
        }
        unsafe rmdir(path)
    }
}

/// Returns the names in a folder, in no order; none if the folder does not exist.
public func folderEntries(_ path: String) -> [String] {
    guard let folder = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(folder) }
    var names: [String] = []
    while let entry = unsafe readdir(folder) {
        let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { raw in
            unsafe String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
        }
        if name != "." && name != ".." { names.append(name) }
    }
    return names
}
