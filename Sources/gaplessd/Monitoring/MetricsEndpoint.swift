import HTTP1
import Platform

/// The endpoint of `metrics_listen`: its server and its connection to Redis. Used on the dispatcher's thread only.
///
/// Without the setting there is no thread and no socket.
final class MetricsEndpoint {
    private struct Service {
        var address: HostAndPort
        var server: StatusServer
        var readings: RedisReadings
        var hosts: [String]
    }

    let board = ProcessBoard()
    private let resolver = NameResolver(thread: "metrics names")
    private let log: Log
    private let started = WallClock.now()
    private var service: Service?
    /// Set with the first endpoint: the lists of a daemon never change.
    private var page: Page?

    init(log: Log) { self.log = log }

    var isOpen: Bool { service != nil }

    /// Listens at the address of the settings. The old server closes after the new one listens, so that an error changes nothing.
    /// If both have the same port, the old server closes first, and listens again after an error.
    ///
    /// - Parameter timeout: how long the resolver may take. A daemon that reloads its settings sends nothing meanwhile.
    func follow(_ configuration: Configuration, timeout: Duration = FileBytes.timeout) throws(SettingsError) {
        let settings = configuration.settings
        let options = PageFacts.Options(file: configuration.file, redacts: settings.log.redacts)
        let page = self.page ?? (Locked(History(lists: settings.lists)), Locked(options))
        self.page = page
        if let service, service.address == settings.metricsListen {
            self.service?.hosts = settings.metricsHosts
            page.options.withLock { $0 = options }
            service.server.allow(hosts: settings.metricsHosts)
            return service.readings.adopt(settings, tls: configuration.redisTLS)
        }
        guard let address = settings.metricsListen else { return close() }
        let found = try lookUp(address, atMost: timeout)
        let readings = try startReadings(configuration, page)
        let old = service
        let isInTheWay = old?.server.port == address.port
        if isInTheWay { old?.server.close() }
        do {
            let server = try listen(at: found, address.host, readings, settings.metricsHosts, page)
            page.options.withLock { $0 = options }
            old?.readings.stop()
            if !isInTheWay { old?.server.close() }
            service = Service(address: address, server: server, readings: readings, hosts: settings.metricsHosts)
            log.info("Metrics are at http://\(HostAndPort(address.host, server.port).text)/metrics.", .metricsListening)
        } catch {
            readings.stop()
            if isInTheWay { restore(page) }
            switch error {
            case .thread(let error): throw Self.cannotServe(error)
            case .socket: throw SettingsError(cannotListenAt: address, error.description)
            }
        }
    }

    private func lookUp(_ address: HostAndPort, atMost timeout: Duration) throws(SettingsError) -> SocketAddress {
        do {
            return try resolver.address(of: address.host, port: address.port, atMost: timeout)
        } catch {
            throw SettingsError(cannotListenAt: address, error.description)
        }
    }

    private func startReadings(_ configuration: Configuration, _ page: Page) throws(SettingsError) -> RedisReadings {
        do {
            return try RedisReadings(configuration.settings, tls: configuration.redisTLS) { [board] reading in
                page.history.withLock { $0.observe(reading, board.latest?.snapshot, now: .now) }
            }
        } catch {
            throw Self.cannotServe(error)
        }
    }

    private static func cannotServe(_ error: ThreadError) -> SettingsError {
        SettingsError(key: "metrics_listen", problem: "cannot be served: \(error)", remedy: "")
    }

    private typealias Page = (history: Locked<History>, options: Locked<PageFacts.Options>)

    private func listen(
        at address: SocketAddress, _ host: String, _ readings: RedisReadings, _ hosts: [String], _ page: Page
    ) throws(ListenError) -> StatusServer {
        let router = MetricsRouter(
            board: board, readings: readings, log: log, started: started, history: page.history, options: page.options)
        return try StatusServer(host: host, at: address, hosts: hosts) { router.reply(to: $0.path) }
    }

    /// Listens at the old address again.
    private func restore(_ page: Page) {
        guard let old = service else { return }
        do throws(ListenError) {
            service?.server = try listen(at: old.server.address, old.address.host, old.readings, old.hosts, page)
        } catch {
            log.error("Metrics endpoint lost: cannot re-bind \(old.address.text) (\(error)).", .metricsLost)
            service = nil
            old.readings.stop()
        }
    }

    func close() {
        guard let service else { return }
        self.service = nil
        service.readings.stop()
        service.server.close()
    }
}

extension SettingsError {
    /// The fault of an address in `metrics_listen` that cannot be bound.
    init(cannotListenAt address: HostAndPort, _ why: String) {
        self.init(
            key: "metrics_listen", problem: "cannot listen at \(address.text): \(why)",
            remedy: "expected an address of this machine with a free port, or port 0")
    }
}
