internal import APNSSimulator
import Glibc

/// Whole small files.
public enum File {
    public static func write(_ text: String, to path: String) throws(HarnessError) {
        guard let file = unsafe fopen(path, "w") else { throw HarnessError("cannot write \(path): errno \(errno)") }
        defer { unsafe fclose(file) }
        let bytes = Array(text.utf8)
        guard unsafe fwrite(bytes, 1, bytes.count, file) == bytes.count else {
            throw HarnessError("cannot write \(path): errno \(errno)")
        }
    }

    /// Returns the content, or an empty string if the file does not exist.
    public static func read(_ path: String) -> String { String(decoding: bytes(of: path, from: 0), as: UTF8.self) }

    /// Returns the bytes from an offset to the end.
    public static func bytes(of path: String, from offset: Int) -> [UInt8] {
        guard let file = unsafe fopen(path, "r") else { return [] }
        defer { unsafe fclose(file) }
        unsafe fseek(file, offset, SEEK_SET)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = unsafe fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
        return bytes
    }
}

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

/// Returns the names in a folder; none if the folder does not exist.
public func folderEntries(_ path: String) -> [String] {
    ((try? Files.names(in: path)) ?? []).filter { $0 != "." && $0 != ".." }
}

/// The checkout that this program was built from.
public enum Checkout {
    /// The absolute path of the folder that contains Package.swift.
    public static let path = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")

    /// Returns the content of a file, as UTF-8.
    ///
    /// - Parameter file: the path below the checkout.
    public static func read(_ file: String) -> String { File.read("\(path)/\(file)") }
}

/// A fixture failed: a file, a program or a port.
public struct HarnessError: Error, CustomStringConvertible {
    public var description: String

    public init(_ description: String) { self.description = description }
}
