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
