import ArgumentParser
import Glibc
import JSONBytes
import Platform
import RedisQueue
import Synchronization

/// Descriptors 0, 1 and 2 of this process.
enum StandardStreams {
    /// The errno of the last failed write to standard output; 0 if all succeeded.
    private static let outputFault = Atomic<CInt>(0)

    /// Prepares the process, before anything else runs.
    ///
    /// A closed pipe or a file at its size limit (`ulimit -f`) becomes an error of write(2) instead of a fatal signal. A stream
    /// that is closed at the start becomes /dev/null: a socket with its number would receive log lines.
    static func prepare() {
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
        while true {
            let descriptor = unsafe open("/dev/null", O_RDWR)
            if descriptor == STDOUT_FILENO { outputFault.store(EBADF, ordering: .relaxed) }
            if 0...2 ~= descriptor { continue }
            if descriptor > 2 { close(descriptor) }
            return
        }
    }

    /// Returns 1, after a message, if standard output could not be written.
    ///
    /// - Parameter allowsClosedPipe: whether EPIPE counts as success, as in a pipe to head.
    static func lostOutput(allowsClosedPipe: Bool = true) -> ExitCode? {
        let fault = outputFault.load(ordering: .relaxed)
        if fault == 0 || fault == EPIPE && allowsClosedPipe { return nil }
        print([unsafe "Error: standard output cannot be written: \(String(cString: strerror(fault)))"], to: STDERR_FILENO)
        return .failure
    }

    /// Writes lines. A failed write to standard output sets the exit status (`lostOutput`).
    ///
    /// - Returns: `false` if the write failed; the caller then stops printing.
    @discardableResult
    static func print(_ lines: [String], to descriptor: CInt = STDOUT_FILENO) -> Bool {
        write(Array(lines.map { $0 + "\n" }.joined().utf8), to: descriptor)
    }

    /// Prints an object on one line.
    static func print(_ members: KeyValuePairs<String, JSONValue>) { print([JSONValue.members(members).line]) }

    /// Writes bytes. See `print`.
    @discardableResult
    static func write(_ bytes: [UInt8], to descriptor: CInt = STDOUT_FILENO) -> Bool {
        // /dev/null, its replacement, accepts every write: `status --watch` would never end.
        if descriptor == STDOUT_FILENO, outputFault.load(ordering: .relaxed) == EBADF { return false }
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes[written...].withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                written += count
            } else if errno != EINTR {
                if descriptor == STDOUT_FILENO { outputFault.store(errno, ordering: .relaxed) }
                return false
            }
        }
        return true
    }

    static func isTerminal(_ descriptor: CInt) -> Bool { isatty(descriptor) == 1 }
}

/// The exit codes of sysexits.h (docs/calls.md, "Exit codes"). ArgumentParser defines 0, 1 and 64.
extension ExitCode {
    /// EX_DATAERR: invalid input lines.
    static let badInput = ExitCode(65)
    /// EX_UNAVAILABLE: a required service did not respond.
    static let serviceUnavailable = ExitCode(69)
    /// EX_CONFIG: a fault in the settings or credentials.
    static let settingsFault = ExitCode(78)

    /// Prints the reason on stderr, and returns the exit code.
    func because(_ lines: String...) -> ExitCode {
        StandardStreams.print(lines, to: STDERR_FILENO)
        return self
    }

    /// Prints a fault of an option that only the settings reveal, and returns EX_USAGE.
    static func wrongUsage(_ why: String, of call: String) -> ExitCode {
        validationFailure.because("Error: \(why)", "  See 'gaplessd help \(call)' for more information.")
    }
}

extension RedisAccess {
    /// Runs a whole call on one connection. A fault of Redis is one line on stderr, and the exit status.
    static func run(_ settings: Settings, _ body: (inout RedisClient) throws -> Void) throws {
        do {
            var client = try open(settings)
            try body(&client)
        } catch RedisError.reply(let reply) where reply.kind == .wrongType {
            throw ProbeError.refused(settings, faults(behind: .reply(reply), settings)).told("redis")
        } catch let error as RedisError {
            throw ProbeError(error, of: settings).told("redis")
        } catch let fault as ProbeError {
            throw fault.told("redis")
        }
    }
}

extension ProbeError {
    /// Reports the error on stderr and returns the exit status of the call.
    func told(_ service: String, adding more: String = "") -> ExitCode {
        (isOurs ? ExitCode.settingsFault : .serviceUnavailable).because("\(service): \(self)\(more)")
    }
}

/// Asks the user of a terminal before a change.
enum Confirmation {
    /// Returns at once if standard input or standard error is no terminal: a script is not asked.
    ///
    /// - Throws: `ExitCode.failure` unless the answer is yes. Then `refusal` was printed.
    static func ask(_ question: String, refusal: String) throws {
        guard StandardStreams.isTerminal(STDIN_FILENO), StandardStreams.isTerminal(STDERR_FILENO) else { return }
        StandardStreams.write(Array("\(question) [y/N] ".utf8), to: STDERR_FILENO)
        guard let answer = readLine(), ["y", "yes"].contains(answer.lowercased()) else {
            throw ExitCode.failure.because(refusal)
        }
    }
}

/// A progress line on stderr, redrawn in place. Silent if stderr is not a terminal.
struct ProgressBar {
    private static let interval = Duration.milliseconds(100)
    private static let width = 30

    private let isShown = StandardStreams.isTerminal(STDERR_FILENO)
    private var due = Instant.now + interval
    private var isDrawn = false

    /// - Parameter share: the completed fraction, 0 to 1; `nil` if the total is unknown.
    mutating func update(share: Double?, _ text: String) {
        guard isShown, .now >= due else { return }
        due = .now + Self.interval
        isDrawn = true
        var bar = ""
        if let share {
            let full = Int(Double(Self.width) * min(1, max(0, share)))
            let percent = Int(100 * min(1, max(0, share)))
            bar = "[" + String(repeating: "#", count: full) + String(repeating: " ", count: Self.width - full) + "] \(percent)% "
        }
        StandardStreams.write(Array("\r\(bar)\(text)\u{1B}[K".utf8), to: STDERR_FILENO)
    }

    /// Erases the line, before other output and at the end.
    mutating func clear() {
        guard isDrawn else { return }
        isDrawn = false
        StandardStreams.write(Array("\r\u{1B}[K".utf8), to: STDERR_FILENO)
    }
}

extension String {
    /// Returns the text with spaces behind it.
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }

    /// Returns the text with spaces before it.
    func padded(leftTo width: Int) -> String { String(repeating: " ", count: max(0, width - count)) + self }
}
