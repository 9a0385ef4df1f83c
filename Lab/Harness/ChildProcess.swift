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

/// Returns the resident memory of a process, in bytes; 0 if the process has ended.
public func processMemory(_ pid: CInt) -> Int {
    let fields = File.read("/proc/\(pid)/statm").split(separator: " ")
    return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(CInt(_SC_PAGESIZE))) : 0
}

/// Returns the peak resident memory of a running process, in bytes, counted from the start of its program.
///
/// The kernel starts `ChildProcess.Exit.peakBytes` with the memory of the parent instead.
public func peakMemory(_ pid: CInt) -> Int {
    for line in File.read("/proc/\(pid)/status").split(separator: "\n") where line.hasPrefix("VmHWM:") {
        return line.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 } ?? 0
    }
    return 0
}

/// Returns the processor time of a running process, in the ticks of the kernel.
public func processorTime(_ pid: CInt) -> Duration {
    // utime and stime are fields 14 and 15 of stat, in ticks, after a name that may contain spaces (proc(5)).
    let text = File.read("/proc/\(pid)/stat")
    guard let end = text.lastIndex(of: ")") else { return .zero }
    let fields = text[end...].split(separator: " ")
    guard fields.count > 13, let user = Int(fields[12]), let system = Int(fields[13]) else { return .zero }
    return .milliseconds((user + system) * 1000 / Int(sysconf(CInt(_SC_CLK_TCK))))
}

/// The programs of this package.
public enum BuiltProducts {
    /// Returns the path of a product: SwiftPM puts all of them, and the test program, into one folder.
    public static func path(_ name: String) -> String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let length = unsafe readlink("/proc/self/exe", &buffer, buffer.count)
        let ourselves = String(decoding: buffer.prefix(max(0, length)).map(UInt8.init(bitPattern:)), as: UTF8.self)
        return ourselves.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/") + "/" + name
    }

    /// The path of the daemon of 0.1.0 that `scripts/older-daemon` built; `nil` if it did not run.
    public static var olderDaemon: String? {
        let path = Checkout.path + "/.build/older/gaplessd"
        return unsafe access(path, X_OK) == 0 ? path : nil
    }
}

/// A sanitizer that this program, and with it the other programs of the package, was built with.
public enum Sanitizer: Sendable {
    case address
    case thread

    /// `nil` in a usual build.
    public static let current: Sanitizer? =
        if unsafe dlsym(nil, "__tsan_init") != nil {
            .thread
        } else if unsafe dlsym(nil, "__asan_init") != nil {
            .address
        } else {
            nil
        }

    /// How many times longer a program may take than a usual build.
    public static var slowdown: Int { current == nil ? 1 : 4 }

    /// A bound of resident memory with what the sanitizer adds: its shadow memory is resident, and so is freed memory, of which
    /// Address Sanitizer keeps 256 MB.
    /// - Parameter bytes: the bound of a usual build.
    public static func memoryBound(_ bytes: Int) -> Int { current == nil ? bytes : 8 * bytes + (512 << 20) }
}
