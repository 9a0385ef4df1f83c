import Glibc

/// The programs of this package, beside the one that runs.
public enum BuiltProducts {
    /// The path of a product: SwiftPM puts them all, and the tests' own program, into one folder.
    public static func path(_ name: String) -> String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let length = readlink("/proc/self/exe", &buffer, buffer.count)
        let ourselves = String(decoding: buffer.prefix(max(0, length)).map(UInt8.init(bitPattern:)), as: UTF8.self)
        return ourselves.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/") + "/" + name
    }
}

/// An APNs simulator in a process of its own, with credentials of its own making.
public final class SimulatorProcess {
    public let port: Int
    public let process: ChildProcess
    private let folder: TemporaryFolder

    /// - Parameter arguments: of `apns-simulator serve`, beside port, credentials and ledger.
    public init(folder: TemporaryFolder, port: Int = 0, ledger: Bool = true, _ arguments: [String] = []) throws {
        self.folder = folder
        let output = folder.file("simulator.out")
        var all = ["serve", "--port", String(port), "--credentials", folder.file("credentials")]
        if ledger { all += ["--ledger", folder.file("ledger")] }
        let process = try ChildProcess(
            BuiltProducts.path("apns-simulator"), all + arguments, standardOutput: .file(output), standardError: .file(output))
        self.process = process
        _ = waitUntil { SimulatorProcess.listeningPort(output) != nil || process.poll() != nil }
        guard let port = SimulatorProcess.listeningPort(output) else {
            throw ChildProcess.Failure(description: "apns-simulator did not start:\n" + File.read(output))
        }
        self.port = port
    }

    /// What it saw so far; all of it once it has ended.
    public var ledger: Ledger { Ledger(File.read(folder.file("ledger"))) }

    /// Ends it; returns its totals as it printed them.
    public func stop() -> String {
        process.kill(SIGTERM)
        _ = process.wait(atMost: .seconds(10))
        return File.read(folder.file("simulator.out")).split(separator: "\n").last.map(String.init) ?? ""
    }

    private static func listeningPort(_ output: String) -> Int? {
        for line in File.read(output).split(separator: "\n") where line.hasPrefix("listening on ") {
            return line.split(separator: ":").last.flatMap { Int($0) }
        }
        return nil
    }
}

/// One gaplessd in a process of its own.
public final class DaemonProcess {
    public let process: ChildProcess
    private let folder: TemporaryFolder
    private let name: String
    /// Bytes that an earlier one of the same name has left in `NAME.out`.
    private let outputBefore: Int

    /// - Parameters:
    ///   - settings: the path of its settings file.
    ///   - name: both its outputs are appended to `NAME.out` and `NAME.err` of `folder`.
    ///   - stateFolder: what systemd would make for it; `state` in `folder` unless told.
    ///   - wrapper: a command to run it under.
    ///   - log: where both outputs go, if not there.
    public init(
        settings: String, folder: TemporaryFolder, name: String = "daemon", stateFolder: String? = nil, under wrapper: [String] = [],
        log: ChildProcess.Output? = nil
    ) throws {
        (self.folder, self.name) = (folder, name)
        outputBefore = File.read(folder.file("\(name).out")).utf8.count
        let command = wrapper + [BuiltProducts.path("gaplessd"), settings]
        process = try ChildProcess(
            command[0], Array(command.dropFirst()), environment: ["STATE_DIRECTORY": stateFolder ?? folder.file("state")],
            standardOutput: log ?? .file(folder.file("\(name).out")), standardError: log ?? .file(folder.file("\(name).err")))
    }

    public var standardOutput: String { File.read(folder.file("\(name).out")) }
    public var standardError: String { File.read(folder.file("\(name).err")) }

    /// Whether it has got as far as to listen to signals, and to say that it started.
    public var hasStarted: Bool {
        String(decoding: standardOutput.utf8.dropFirst(outputBefore), as: UTF8.self).contains(" started, list ")
    }

    /// SIGTERM, and its exit.
    public func stop(atMost limit: Duration = .seconds(30)) -> ChildProcess.Exit? {
        process.kill(SIGTERM)
        return process.wait(atMost: limit)
    }

    /// Resident memory now, in bytes.
    public var residentBytes: Int { processMemory(process.pid) }

    /// The most it ever had.
    public var peakBytes: Int { peakMemory(process.pid) }
}

/// Resident memory of a process, in bytes; 0 when it is gone.
public func processMemory(_ pid: CInt) -> Int {
    let fields = File.read("/proc/\(pid)/statm").split(separator: " ")
    return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(CInt(_SC_PAGESIZE))) : 0
}

/// The most memory that a living process ever had resident, in bytes. Unlike `ChildProcess.Exit.peakBytes`, which the kernel
/// begins with what its parent had, it counts from the program's start.
public func peakMemory(_ pid: CInt) -> Int {
    for line in File.read("/proc/\(pid)/status").split(separator: "\n") where line.hasPrefix("VmHWM:") {
        return line.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 } ?? 0
    }
    return 0
}

/// Processor time that a living process has used so far, from /proc/PID/schedstat: nanoseconds of its threads.
public func processorTime(_ pid: CInt) -> Duration {
    // utime and stime are fields 14 and 15 of stat, in ticks, behind a name that may hold spaces (proc(5)).
    let text = File.read("/proc/\(pid)/stat")
    guard let end = text.lastIndex(of: ")") else { return .zero }
    let fields = text[end...].split(separator: " ")
    guard fields.count > 13, let user = Int(fields[12]), let system = Int(fields[13]) else { return .zero }
    return .milliseconds((user + system) * 1000 / Int(sysconf(CInt(_SC_CLK_TCK))))
}
