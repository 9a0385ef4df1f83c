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

/// Small files, whole.
public enum File {
    public struct Failure: Error, CustomStringConvertible {
        public var description: String
    }

    public static func write(_ text: String, to path: String) throws(Failure) {
        guard let file = fopen(path, "w") else { throw Failure(description: "cannot write \(path): errno \(errno)") }
        defer { fclose(file) }
        let bytes = Array(text.utf8)
        guard fwrite(bytes, 1, bytes.count, file) == bytes.count else {
            throw Failure(description: "cannot write \(path): errno \(errno)")
        }
    }

    /// The content, or nothing where there is no such file yet.
    public static func read(_ path: String) -> String {
        guard let file = fopen(path, "r") else { return "" }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
        return String(decoding: bytes, as: UTF8.self)
    }
}
