import Glibc

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
        settings: String, folder: TemporaryFolder, name: String = "daemon", stateFolder: String? = nil,
        under wrapper: [String] = [],
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
