internal import CLinux
import Glibc

/// A running gaplessd.
public final class DaemonProcess {
    public let process: ChildProcess
    private let folder: TemporaryFolder
    private let name: String
    /// Bytes that an earlier daemon of the same name left in `NAME.out`.
    private let outputBefore: Int

    /// - Parameters:
    ///   - settings: the path of the settings file.
    ///   - name: the outputs are appended to `NAME.out` and `NAME.err` in `folder`.
    ///   - stateFolder: the value of STATE_DIRECTORY; `state` in `folder` by default.
    ///   - environment: added to the environment of this process.
    ///   - program: the path of the daemon; that of this package by default.
    ///   - wrapper: a command that runs the daemon.
    ///   - log: replaces both outputs.
    public init(
        settings: String, folder: TemporaryFolder, name: String = "daemon", stateFolder: String? = nil,
        environment: [String: String] = [:], program: String? = nil, under wrapper: [String] = [],
        log: ChildProcess.Output? = nil
    ) throws {
        (self.folder, self.name) = (folder, name)
        outputBefore = File.read(folder.file("\(name).out")).utf8.count
        var variables = environment
        variables["STATE_DIRECTORY"] = stateFolder ?? folder.file("state")
        let command = wrapper + [program ?? BuiltProducts.path("gaplessd"), settings]
        process = try ChildProcess(
            command[0], Array(command.dropFirst()), environment: variables,
            standardOutput: log ?? .file(folder.file("\(name).out")), standardError: log ?? .file(folder.file("\(name).err")))
    }

    public var standardOutput: String { File.read(folder.file("\(name).out")) }
    public var standardError: String { File.read(folder.file("\(name).err")) }

    /// Whether the daemon handles signals and has logged its start.
    public var hasStarted: Bool {
        String(decoding: standardOutput.utf8.dropFirst(outputBefore), as: UTF8.self).contains(" started, list ")
    }

    /// Sends SIGHUP, unless the program is still being loaded: before its first instruction the signal ends any process.
    public func reload() {
        let handled = File.read("/proc/\(process.pid)/status").split(separator: "\n").contains { line in
            // Masks of signals; the lowest bit is SIGHUP (proc(5)).
            guard line.hasPrefix("SigIgn:") || line.hasPrefix("SigBlk:") else { return false }
            return line.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) }.map { $0 & 1 == 1 } ?? false
        }
        if handled { process.kill(SIGHUP) }
    }

    /// Sends SIGTERM and returns the exit.
    public func stop(atMost limit: Duration = .seconds(30)) -> ChildProcess.Exit? {
        process.kill(SIGTERM)
        return process.wait(atMost: limit)
    }

    /// The longest turn of its main loop, which it logs after SIGUSR1; `nil` if it has not started, if its log is not readable,
    /// or if it is a version that does not log it.
    public func longestTurn() -> Duration? {
        guard hasStarted else { return nil }
        let reports = { self.standardOutput.matches(of: #/Counters: .*\n/#) }
        let before = reports().count
        process.kill(SIGUSR1)
        guard waitUntil(atMost: .seconds(2), every: .milliseconds(5), { reports().count > before }) else { return nil }
        let turn = reports().last?.output.firstMatch(of: #/ longest turn (\d+) ms/#)
        return turn.flatMap { Int($0.1) }.map { .milliseconds($0) }
    }

    /// User and system time so far.
    public var processorTime: Duration { Harness.processorTime(process.pid) }

    /// The resident memory, in bytes.
    public var residentBytes: Int { processMemory(process.pid) }

    /// The peak resident memory, in bytes.
    public var peakBytes: Int { peakMemory(process.pid) }
}

/// Daemons on one machine that share one provider token.
public struct Fleet {
    public private(set) var daemons: [DaemonProcess]

    /// - Parameter start: starts a daemon by its number, from 0 on.
    public init(_ size: Int, start: (Int) throws -> DaemonProcess) rethrows {
        daemons = try (0..<size).map(start)
    }

    public mutating func replace(_ index: Int, by daemon: DaemonProcess) { daemons[index] = daemon }

    /// Waits until each daemon has a session. Returns false at the limit.
    public func isOpen(within limit: Duration) -> Bool {
        daemons.allSatisfy { daemon in waitUntil(atMost: limit) { daemon.standardOutput.contains(" is open, ") } }
    }

    /// The number of provider tokens that the daemons signed.
    public var minted: Int {
        daemons.reduce(0) {
            $0 + $1.standardOutput.split(separator: "\n").count { $0.contains("A new provider token was signed ") }
        }
    }

    /// The number of daemons that could not share the token.
    public var unshared: Int { daemons.count { $0.standardError.contains(" cannot be kept for other processes") } }
}

/// Receives the messages of a daemon to the service manager, as systemd does (sd_notify(3)).
public final class ServiceManager {
    /// The value of NOTIFY_SOCKET.
    public let name: String
    private let descriptor: CInt
    private var received: [String] = []

    /// - Parameter name: a path, or an abstract name after `@`.
    public init(_ name: String) throws(HarnessError) {
        self.name = name
        descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let isAbstract = name.hasPrefix("@")
        let path = isAbstract ? [0] + Array(name.utf8.dropFirst()) : Array(name.utf8) + [0]
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + path.count)
        let status = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(descriptor, $0, length) }
        }
        guard status == 0 else { throw HarnessError("cannot bind \(name): errno \(errno)") }
    }

    deinit { close(descriptor) }

    /// All messages so far, oldest first.
    public var messages: [String] {
        var buffer = [UInt8](repeating: 0, count: 8192)
        while true {
            let count = unsafe recv(descriptor, &buffer, buffer.count, 0)
            guard count >= 0 else { return received }
            received.append(String(decoding: buffer[..<count], as: UTF8.self))
        }
    }

    /// The assignments of all messages so far, oldest first.
    public var assignments: [String] { messages.flatMap { $0.split(separator: "\n").map(String.init) } }

    /// The changes of state so far, oldest first: without status, watchdog and times.
    public var changes: [String] {
        assignments.filter { line in ["READY=", "RELOADING=", "STOPPING="].contains { line.hasPrefix($0) } }
    }
}
