import Clocks
import Glibc
import Sockets
import StatusServer
import Threads

/// Everything behind `metrics_listen`: who listens, and what is where. The dispatcher's thread alone has it.
///
/// Without the setting there is no thread, no socket, and nothing to tell.
final class MetricsEndpoint {
    private struct Post {
        var address: HostAndPort
        var server: StatusServer
        var readings: RedisReadings
    }

    let board = ProcessBoard()
    private let log: Log
    private let started = WallClock.now()
    private var post: Post?

    init(log: Log) { self.log = log }

    /// Whether anybody listens.
    var isOpen: Bool { post != nil }

    /// Listens where the settings say: the old place is left once the new one is had, so that a fault changes nothing. Where the old one
    /// may be what stands in the way, with the same port at another address, it makes room, and is taken again after a fault.
    func follow(_ configuration: Configuration) throws(SettingsError) {
        let address = configuration.settings.metricsListen
        if let post, post.address == address { return post.readings.adopt(configuration.settings, tls: configuration.redisTLS) }
        guard let address else { return close() }
        let readings: RedisReadings
        do throws(ThreadError) {
            readings = try RedisReadings(configuration.settings, tls: configuration.redisTLS)
            // SwiftNIO's way of not getting its thread would be to end the process.
            try OwnedThread(name: "metrics") {}.join()
        } catch {
            throw SettingsError(key: "metrics_listen", problem: "cannot be served: \(error)", remedy: "")
        }
        let old = post
        let isInTheWay = old?.server.port == address.port
        if isInTheWay { old?.server.close() }
        do {
            let server = try listen(at: address, readings)
            old?.readings.stop()
            if !isInTheWay { old?.server.close() }
            post = Post(address: address, server: server, readings: readings)
            log.info("Metrics are at http://\(HostAndPort(address.host, server.port).text)/metrics.")
        } catch {
            readings.stop()
            if isInTheWay { restore() }
            throw SettingsError(cannotListenAt: address, error.description)
        }
    }

    private func listen(at address: HostAndPort, _ readings: RedisReadings) throws(ListenError) -> StatusServer {
        let desk = MetricsRouter(board: board, readings: readings, log: log, started: started)
        return try StatusServer(host: address.host, port: address.port) { desk.reply(to: $0) }
    }

    /// Listens again where it did.
    private func restore() {
        guard let old = post else { return }
        do throws(ListenError) {
            post?.server = try listen(at: HostAndPort(old.address.host, old.server.port), old.readings)
        } catch {
            log.error("Metrics are gone: \(old.address.text) cannot be listened at again (\(error)).")
            post = nil
            old.readings.stop()
        }
    }

    func close() {
        guard let post else { return }
        self.post = nil
        post.readings.stop()
        post.server.close()
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
