internal import CLinux
import Clocks
import Glibc
internal import Threads

/// One program that the harness started and ends: never a shell, never left behind.
///
/// A second, tiny process holds the other end of a pipe to us: should we die without a word, it kills the child.
public final class ChildProcess: Sendable {
    public enum Output: Sendable {
        case inherited
        case discarded
        /// Appended to; one file may serve both outputs.
        case file(String)
    }

    public struct Exit: Sendable, Equatable {
        /// The exit status, or `nil` when a signal ended it.
        public var status: CInt?
        public var signal: CInt?
        /// User and system time that the kernel accounted to it.
        public var processorTime: Duration
        /// The most memory it ever had resident, or what we had when it was started, if that was more.
        public var peakBytes: Int
    }

    public struct Failure: Error, CustomStringConvertible {
        public var description: String
    }

    public let pid: CInt
    public let name: String
    private let leash: CInt
    private let leashPipe: CInt
    private let exit = Locked<Exit?>(nil)

    /// - Parameters:
    ///   - program: a path, or a name to look up in PATH.
    ///   - environment: added to ours.
    public init(
        _ program: String, _ arguments: [String], environment: [String: String] = [:], standardOutput: Output = .discarded,
        standardError: Output = .discarded
    ) throws(Failure) {
        name = program.split(separator: "/").last.map(String.init) ?? program
        pid = try ChildProcess.spawn(
            program, arguments, environment: environment, input: nil, standardOutput, standardError)
        var ends: [CInt] = [0, 0]
        pipe(&ends)
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        leashPipe = ends[1]
        // `read` returns when the pipe closes, which our death does as surely as a word.
        leash = try ChildProcess.spawn(
            "/bin/sh", ["-c", "read word || kill -9 \(pid)"], environment: [:], input: ends[0], .discarded, .discarded)
        close(ends[0])
    }

    deinit {
        kill(SIGKILL)
        _ = wait()
    }

    public func kill(_ signal: CInt) {
        exit.withLock { exit in
            if exit == nil { _ = Glibc.kill(pid, signal) }
        }
    }

    /// Its end, if it has come.
    public func poll() -> Exit? { reap(options: WNOHANG) }

    /// Waits for its end.
    public func wait() -> Exit { reap(options: 0)! }

    /// Waits for its end at most so long.
    public func wait(atMost limit: Duration) -> Exit? {
        _ = waitUntil(atMost: limit) { self.poll() != nil }
        return poll()
    }

    private func reap(options: CInt) -> Exit? {
        exit.withLock { exit in
            if exit != nil { return exit }
            var status: CInt = 0
            var usage = rusage()
            var reaped = wait4(pid, &status, options, &usage)
            while reaped < 0 && errno == EINTR { reaped = wait4(pid, &status, options, &usage) }
            guard reaped == pid else { return nil }
            exit = ChildProcess.exit(status: status, usage)
            dropLeash()
            return exit
        }
    }

    private func dropLeash() {
        _ = write(leashPipe, "x\n", 2)
        close(leashPipe)
        var status: CInt = 0
        while waitpid(leash, &status, 0) < 0 && errno == EINTR {}
    }

    private static func exit(status: CInt, _ usage: rusage) -> Exit {
        let signal = status & 0x7F
        let time = { (value: timeval) in Duration.seconds(value.tv_sec) + .microseconds(value.tv_usec) }
        return Exit(
            status: signal == 0 ? (status >> 8) & 0xFF : nil, signal: signal == 0 ? nil : signal,
            processorTime: time(usage.ru_utime) + time(usage.ru_stime), peakBytes: usage.ru_maxrss * 1024)
    }

    private static func spawn(
        _ program: String, _ arguments: [String], environment: [String: String], input: CInt?, _ output: Output, _ error: Output
    ) throws(Failure) -> CInt {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        redirect(&actions, 1, output)
        redirect(&actions, 2, error)
        // What our own process has open is none of the child's business, and would count against its limit.
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // A blocked signal of ours would stay blocked in the child.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))

        var settings = inheritedEnvironment()
        for (name, value) in environment { settings[name] = value }
        var argv = ([program] + arguments).map { strdup($0) } + [nil]
        var envp = settings.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for string in argv + envp { free(string) } }
        var pid = pid_t()
        let status = posix_spawnp(&pid, program, &actions, &attributes, &argv, &envp)
        guard status == 0 else { throw Failure(description: "cannot start \(program): \(String(cString: strerror(status)))") }
        return pid
    }

    private static func redirect(_ actions: inout posix_spawn_file_actions_t, _ descriptor: CInt, _ output: Output) {
        switch output {
        case .inherited: break
        case .discarded: posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
        case .file(let path):
            posix_spawn_file_actions_addopen(&actions, descriptor, path, O_WRONLY | O_CREAT | O_APPEND, 0o644)
        }
    }

    private static func inheritedEnvironment() -> [String: String] {
        var settings: [String: String] = [:]
        var next = environ
        while let entry = next.pointee {
            let parts = String(cString: entry).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { settings[String(parts[0])] = String(parts[1]) }
            next += 1
        }
        return settings
    }
}

/// Waits for a condition, at most so long; whether it came about.
public func waitUntil(
    atMost limit: Duration = .seconds(10), every interval: Duration = .milliseconds(2), _ condition: () throws -> Bool
) rethrows -> Bool {
    let deadline = Instant.now + limit
    while true {
        if try condition() { return true }
        if Instant.now >= deadline { return false }
        var pause = timespec(tv_sec: 0, tv_nsec: Int(interval / .nanoseconds(1)))
        nanosleep(&pause, nil)
    }
}
