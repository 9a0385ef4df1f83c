public import APNSSimulator
import Glibc

/// A simulator of APNs that a stage can stop.
public protocol PushService: AnyObject {
    var port: Int { get }
    /// Stops the simulator and returns its totals as JSON.
    func stop() -> String
}

/// An APNs simulator in this process; a test changes its behaviour while it runs.
public final class HostedSimulator: PushService {
    public let simulator: Simulator
    public let credentials: Credentials
    public var port: Int { simulator.port }

    /// The id of the second provider signing key that the simulator accepts: `credentials/AuthKey_SIMKEY0002.p8`, same team.
    public static let secondKeyID = "SIMKEY0002"

    /// - Parameters:
    ///   - request: the properties of the credentials, which go to the folder `credentials`.
    ///   - configure: changes the configuration before the start. By default the ledger keeps whole requests in memory.
    public init(
        folder: TemporaryFolder, request: Credentials.Request = .init(),
        configure: (inout Simulator.Configuration) -> Void = { _ in }
    ) throws {
        credentials = try Credentials.make(request)
        try credentials.write(to: folder.file("credentials"))
        let second = try Credentials.make(.init(keyID: HostedSimulator.secondKeyID)).providerKey
        let path = folder.file("credentials/AuthKey_\(HostedSimulator.secondKeyID).p8")
        try File.write(String(decoding: second.pem, as: UTF8.self), to: path)
        var configuration = Simulator.Configuration(credentials: credentials)
        configuration.providerKeys.append(second)
        configuration.ledgerDetail = .requests(keepsBodies: true)
        configure(&configuration)
        simulator = try Simulator(configuration)
    }

    public func stop() -> String {
        simulator.stop()
        return simulator.totals.json
    }
}

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
