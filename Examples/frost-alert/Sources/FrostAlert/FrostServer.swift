internal import Hummingbird
internal import HummingbirdCore
public import Logging
internal import NIOCore

/// The whole server: the requests of the app, and three services that work beside them.
public struct FrostServer: Sendable {
    /// The time after which an idle connection is closed.
    private static let idleTimeout = TimeAmount.seconds(30)

    private let settings: Settings
    private let logger: Logger

    public init(_ settings: Settings, logger: Logger) {
        self.settings = settings
        self.logger = logger
    }

    /// Serves until SIGTERM or SIGINT.
    public func run() async throws {
        let database = try Database.open(settings.database)
        let (devices, alerts) = (DeviceTable(database: database), AlertTable(database: database))
        let openMeteo = OpenMeteo(base: settings.forecastURL)
        let link = { [settings] (label: String) in
            RedisLink(settings.queue, resultsKey: settings.resultsKey, label: label)
        }
        let application = Application(
            router: DeviceRoutes(devices: devices).router(),
            server: .http1(configuration: HTTP1Channel.Configuration(idleTimeout: Self.idleTimeout)),
            configuration: ApplicationConfiguration(address: .hostname(settings.host, port: settings.port)),
            services: [
                ForecastCycles(
                    cycles: CycleTable(database: database), interval: settings.forecastInterval, limit: settings.frostBelow,
                    logger: logger, forecast: openMeteo.forecast),
                AlertSender(alerts: alerts, redis: link("alerts"), logger: logger),
                OutcomeReader(devices: devices, alerts: alerts, redis: link("outcomes"), logger: logger),
            ],
            onServerRunning: { [logger] channel in
                logger.info("Listening on \(channel.localAddress.map { "\($0)" } ?? "an unknown address").")
            }, logger: logger)
        try await application.runService()
    }
}
