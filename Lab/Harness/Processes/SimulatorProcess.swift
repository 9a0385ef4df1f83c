import Glibc

/// An `apns-simulator` in its own process, which makes its own credentials.
public final class SimulatorProcess: PushService {
    public let port: Int
    public let process: ChildProcess
    private let folder: TemporaryFolder

    /// - Parameter arguments: of `apns-simulator serve`, in addition to the port, the credentials and the ledger.
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
            throw HarnessError("apns-simulator did not start:\n" + File.read(output))
        }
        self.port = port
    }

    public var ledger: Ledger { Ledger(File.read(folder.file("ledger"))) }

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
