import Harness

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
