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
