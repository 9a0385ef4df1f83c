internal import CLinux
import Glibc
internal import Platform

/// A program that the harness starts and ends.
///
/// A second small process holds the other end of a pipe to this process. If this process dies, it kills the child.
public final class ChildProcess: Sendable {
    public enum Output: Sendable {
        case inherited
        case discarded
        /// Appends to the file; both outputs may share one.
        case file(String)
    }

    public struct Exit: Sendable, Equatable {
        /// The exit status, or `nil` if a signal ended the program.
        public var status: CInt?
        public var signal: CInt?
        /// User and system time.
        public var processorTime: Duration
        /// The peak resident memory, or the resident memory of this process at the start if that was higher.
        public var peakBytes: Int
    }

    public let pid: CInt
    public let name: String
    private let leash: CInt
    private let leashPipe: CInt
    private let exit = Locked<Exit?>(nil)

    /// - Parameters:
    ///   - program: a path, or a name to look up in PATH.
    ///   - environment: added to the environment of this process.
    public init(
        _ program: String, _ arguments: [String], environment: [String: String] = [:], standardOutput: Output = .discarded,
        standardError: Output = .discarded
    ) throws(HarnessError) {
        name = program.split(separator: "/").last.map(String.init) ?? program
        pid = try ChildProcess.spawn(
            program, arguments, environment: environment, input: nil, standardOutput, standardError)
        var ends: [CInt] = [0, 0]
        unsafe pipe(&ends)
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        leashPipe = ends[1]
        // `read` returns an error when the pipe closes, which also happens at the death of this process.
        leash = try ChildProcess.spawn(
            "/bin/sh", ["-c", "read line || kill -9 \(pid)"], environment: [:], input: ends[0], .discarded, .discarded)
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

    /// Returns the exit if the program has ended.
    public func poll() -> Exit? { reap(options: WNOHANG) }

    /// Waits for the exit.
    public func wait() -> Exit { reap(options: 0)! }

    /// Waits for the exit, up to a limit.
    public func wait(atMost limit: Duration) -> Exit? {
        _ = waitUntil(atMost: limit) { self.poll() != nil }
        return poll()
    }

    /// Keeps the process on one processor. Does nothing on a machine without it.
    public func pin(to processor: Int) {
        guard sysconf(CInt(_SC_NPROCESSORS_ONLN)) > processor else { return }
        _ = try? ChildProcess("taskset", ["-apc", String(processor), String(pid)]).wait()
    }

    private func reap(options: CInt) -> Exit? {
        exit.withLock { exit in
            if exit != nil { return exit }
            var status: CInt = 0
            var usage = rusage()
            var reaped = unsafe wait4(pid, &status, options, &usage)
            while reaped < 0 && errno == EINTR { reaped = unsafe wait4(pid, &status, options, &usage) }
            guard reaped == pid else { return nil }
            exit = ChildProcess.exit(status: status, usage)
            dropLeash()
            return exit
        }
    }

    private func dropLeash() {
        _ = unsafe write(leashPipe, "x\n", 2)
        close(leashPipe)
        var status: CInt = 0
        while unsafe waitpid(leash, &status, 0) < 0 && errno == EINTR {}
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
    ) throws(HarnessError) -> CInt {
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        if let input {
            unsafe posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        unsafe redirect(&actions, 1, output)
        unsafe redirect(&actions, 2, error)
        // Inherited descriptors would count against the child's limit.
        unsafe posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        // A signal that is blocked here would stay blocked in the child.
        var none = sigset_t()
        unsafe sigemptyset(&none)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))

        var settings = inheritedEnvironment()
        for (name, value) in environment { settings[name] = value }
        var argv = unsafe Self.makeCStrings([program] + arguments)
        var envp = unsafe Self.makeCStrings(settings.map { "\($0.key)=\($0.value)" })
        defer {
            unsafe Self.freeCStrings(argv)
            unsafe Self.freeCStrings(envp)
        }
        var pid = pid_t()
        let status = unsafe posix_spawnp(&pid, program, &actions, &attributes, &argv, &envp)
        guard status == 0 else { throw HarnessError(unsafe "cannot start \(program): \(String(cString: strerror(status)))") }
        return pid
    }

    private static func redirect(_ actions: inout posix_spawn_file_actions_t, _ descriptor: CInt, _ output: Output) {
        switch output {
        case .inherited: break
        case .discarded: unsafe posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
        case .file(let path):
            unsafe posix_spawn_file_actions_addopen(&actions, descriptor, path, O_WRONLY | O_CREAT | O_APPEND, 0o644)
        }
    }

    private static func inheritedEnvironment() -> [String: String] {
        var settings: [String: String] = [:]
        var next = unsafe environ
        while let entry = unsafe next.pointee {
            let parts = unsafe String(cString: entry).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { settings[String(parts[0])] = String(parts[1]) }
            unsafe next += 1
        }
        return settings
    }

    /// Returns the array that exec(3) expects, with nil at its end. The caller frees it.
    private static func makeCStrings(_ strings: [String]) -> [UnsafeMutablePointer<CChar>?] {
        var pointers: [UnsafeMutablePointer<CChar>?] = unsafe []
        for string in strings { unsafe pointers.append(strdup(string)) }
        unsafe pointers.append(nil)
        return unsafe pointers
    }

    private static func freeCStrings(_ pointers: [UnsafeMutablePointer<CChar>?]) {
        for index in unsafe pointers.indices { unsafe free(pointers[index]) }
    }
}

/// Waits for a condition, up to a limit. Returns whether the condition became true. The usual limit is generous, because the
/// processes of a test share the processors with other tests, and longer under a sanitizer.
public func waitUntil(
    atMost limit: Duration = .seconds(60), every interval: Duration = .milliseconds(2), _ condition: () throws -> Bool
) rethrows -> Bool {
    let deadline = Instant.now + limit * Sanitizer.slowdown
    while true {
        if try condition() { return true }
        if Instant.now >= deadline { return false }
        var pause = timespec(tv_sec: 0, tv_nsec: Int(interval / .nanoseconds(1)))
        unsafe nanosleep(&pause, nil)
    }
}
