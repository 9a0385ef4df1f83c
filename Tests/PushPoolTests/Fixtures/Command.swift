import Glibc
import Testing

/// A directory that is gone after the test.
final class TemporaryDirectory {
    let path: String

    init() {
        var template = Array("/tmp/pushpool-test-XXXXXX".utf8CString)
        path = String(cString: mkdtemp(&template))
    }

    deinit { _ = try? Command.run("rm", "-rf", path) }

    func write(_ bytes: [UInt8], to name: String) {
        let file = fopen("\(path)/\(name)", "w")
        fwrite(bytes, 1, bytes.count, file)
        fclose(file)
    }

    func write(_ text: String, to name: String) { write(Array(text.utf8), to: name) }

    func read(_ name: String) -> [UInt8] {
        guard let file = fopen("\(path)/\(name)", "r") else { return [] }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = fread(&buffer, 1, buffer.count, file)
            if count == 0 { return bytes }
            bytes += buffer[..<count]
        }
    }
}

enum Command {
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// Runs a program to its end; throws with what it said unless it exits with 0.
    static func run(_ words: String...) throws { try run(words) }

    static func run(_ words: [String]) throws {
        let log = "/tmp/pushpool-test-log-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        defer { unlink(log) }
        let process = try start(words, output: log)
        var status: CInt = 0
        waitpid(process, &status, 0)
        if status != 0 {
            let file = fopen(log, "r")
            defer { fclose(file) }
            var text = [UInt8](repeating: 0, count: 2000)
            let count = fread(&text, 1, text.count, file)
            throw Failure(description: "\(words.joined(separator: " ")): \(String(decoding: text[..<count], as: UTF8.self))")
        }
    }

    /// Starts a program with its output in a file.
    static func start(_ words: [String], output: String) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        // The threads that run tests block signals, and a child inherits that: it would not even hear SIGTERM.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process = pid_t()
        let status = posix_spawnp(&process, words[0], &actions, &attributes, &arguments, environ)
        guard status == 0 else { throw Failure(description: "cannot start \(words[0]): errno \(status)") }
        return process
    }
}
