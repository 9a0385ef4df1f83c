import Glibc

/// A folder of our own that goes with everything in it when nobody needs it any more.
public final class TemporaryFolder: Sendable {
    public let path: String

    /// A Unix socket's path may have 107 bytes: with a longer parent there is no room for its name.
    private static let longestParent = 70

    /// Under TMPDIR, or under /tmp where there is none or it is too long.
    public init() {
        let wanted = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let parent = wanted.utf8.count <= TemporaryFolder.longestParent ? wanted : "/tmp"
        var template = Array("\(parent)/gapless-XXXXXX".utf8CString)
        let made = mkdtemp(&template)
        precondition(made != nil, "cannot make a folder in \(parent): errno \(errno)")
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit { TemporaryFolder.remove(path) }

    public func file(_ name: String) -> String { "\(path)/\(name)" }

    /// The folder with everything in it; links are removed, not followed.
    private static func remove(_ path: String) {
        for name in folderEntries(path) {
            let inside = "\(path)/\(name)"
            var facts = stat()
            guard lstat(inside, &facts) == 0 else { continue }
            if facts.st_mode & S_IFMT == S_IFDIR { remove(inside) } else { unlink(inside) }
        }
        rmdir(path)
    }
}

/// The names in a folder, in no order; none where there is no such folder.
public func folderEntries(_ path: String) -> [String] {
    guard let folder = opendir(path) else { return [] }
    defer { closedir(folder) }
    var names: [String] = []
    while let entry = readdir(folder) {
        let name = withUnsafeBytes(of: &entry.pointee.d_name) { raw in
            String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
        }
        if name != "." && name != ".." { names.append(name) }
    }
    return names
}
