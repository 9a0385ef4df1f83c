public import APNSSimulator

/// An APNs simulator in this process; a test changes its behaviour while it runs.
public final class HostedSimulator: PushService {
    public let simulator: Simulator
    public let credentials: Credentials
    public var port: Int { simulator.port }
    private let folder: TemporaryFolder

    /// The id of the second provider signing key that the simulator accepts: `credentials/AuthKey_SIMKEY0002.p8`, same team.
    public static let secondKeyID = "SIMKEY0002"

    /// - Parameters:
    ///   - request: the properties of the credentials, which go to the folder `credentials`.
    ///   - configure: changes the configuration before the start. By default the ledger keeps whole requests in memory.
    public init(
        folder: TemporaryFolder, request: Credentials.Request = .init(),
        configure: (inout Simulator.Configuration) -> Void = { _ in }
    ) throws {
        self.folder = folder
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

    public var ledger: Ledger { Ledger(File.read(folder.file("ledger"))) }

    public func stop() -> String {
        simulator.stop()
        return simulator.totals.json
    }
}
