import Glibc
import Harness

extension TemporaryFolder {
    func write(_ bytes: [UInt8], to name: String) {
        let file = fopen(self.file(name), "w")
        fwrite(bytes, 1, bytes.count, file)
        fclose(file)
    }

    func write(_ text: String, to name: String) { write(Array(text.utf8), to: name) }

    func read(_ name: String) -> [UInt8] {
        guard let file = fopen(self.file(name), "r") else { return [] }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
        return bytes
    }
}

/// Programs that prepare files for a test.
enum Command {
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    static func run(_ words: String...) throws { try run(words) }

    /// Runs a program to its end. Throws its output unless it exits with 0.
    static func run(_ words: [String]) throws {
        let folder = TemporaryFolder()
        let log = ChildProcess.Output.file(folder.file("log"))
        let process = try ChildProcess(words[0], Array(words.dropFirst()), standardOutput: log, standardError: log)
        if process.wait().status == 0 { return }
        throw Failure(description: "\(words.joined(separator: " ")): \(File.read(folder.file("log")))")
    }
}
