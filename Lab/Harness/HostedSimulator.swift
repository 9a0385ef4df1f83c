public import APNSSimulator

extension SimulatorProcess: PushService {}

/// A simulator in this very process, which takes orders while it runs.
public final class HostedSimulator: PushService {
    public let simulator: Simulator
    public var port: Int { simulator.port }
    private let folder: TemporaryFolder

    /// A second provider signing key that it takes, of the same team, as `credentials/AuthKey_SIMKEY0002.p8`.
    public static let secondKeyID = "SIMKEY0002"

    /// - Parameters:
    ///   - behaviour: how it begins.
    ///   - remembers: keeps every request with its connection in memory, beside the file.
    public init(folder: TemporaryFolder, _ behaviour: Behaviour, remembers: Bool = false) throws {
        self.folder = folder
        let credentials = try Credentials.make()
        try credentials.write(to: folder.file("credentials"))
        let second = try Credentials.make(.init(keyID: HostedSimulator.secondKeyID)).providerKey
        let path = folder.file("credentials/AuthKey_\(HostedSimulator.secondKeyID).p8")
        try File.write(String(decoding: second.pem, as: UTF8.self), to: path)
        var configuration = Simulator.Configuration(credentials: credentials)
        configuration.providerKeys.append(second)
        configuration.behaviour = behaviour
        configuration.ledgerDetail = remembers ? .requests(keepsBodies: false) : .counts
        configuration.ledgerPath = folder.file("ledger")
        simulator = try Simulator(configuration)
    }

    public var ledger: Ledger { Ledger(File.read(folder.file("ledger"))) }

    public func stop() -> String {
        simulator.stop()
        return simulator.totals.json
    }
}
