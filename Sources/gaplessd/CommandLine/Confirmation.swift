import ArgumentParser
import Glibc

/// Asks the user of a terminal before a change.
enum Confirmation {
    /// Returns at once if standard input or standard error is no terminal: a script is not asked.
    ///
    /// - Throws: `ExitCode.failure` unless the answer is yes. Then `refusal` was printed.
    static func ask(_ question: String, refusal: String) throws {
        guard StandardStreams.isTerminal(STDIN_FILENO), StandardStreams.isTerminal(STDERR_FILENO) else { return }
        StandardStreams.write(Array("\(question) [y/N] ".utf8), to: STDERR_FILENO)
        guard let answer = readLine(), ["y", "yes"].contains(answer.lowercased()) else {
            StandardStreams.print([refusal], to: STDERR_FILENO)
            throw ExitCode.failure
        }
    }
}
