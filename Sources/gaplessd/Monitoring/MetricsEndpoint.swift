import HTTP1
import Platform
import PushPool

/// The endpoint of `metrics_listen`. Used on the dispatcher's thread only.
///
/// Without the setting there is no thread and no socket.
final class MetricsEndpoint {
    /// The changes of a configuration, after every step that may fail. A server that is not adopted closes.
    struct Preparation {
        fileprivate var address: HostAndPort?
        fileprivate var hosts: [String]
        fileprivate var page: Page
        fileprivate var options: StatusDocument.Options
        /// `nil` if the present one stays, or if there is none.
        fileprivate var server: StatusServer?
    }

    fileprivate typealias Page = (history: Locked<History>, options: Locked<StatusDocument.Options>)

    let board = ProcessBoard()
    private let resolver = NameResolver(thread: "metrics names")
    private let readings: RedisReadings
    private let log: Log
    private let started = WallClock.now()
    private var service: (address: HostAndPort, server: StatusServer)?
    /// Set with the first endpoint: the lists of a daemon never change.
    private var page: Page?

    init(_ readings: RedisReadings, log: Log) { (self.readings, self.log) = (readings, log) }

    var isOpen: Bool { service != nil }

    /// Listens at the address of the settings, if it is a new one. Changes nothing else: the present server stays, also at the
    /// same port.
    ///
    /// - Parameter timeout: how long the resolver may take. A daemon that reloads its settings sends nothing meanwhile.
    func prepare(
        _ configuration: Configuration, timeout: Duration = FileBytes.timeout
    ) throws(SettingsError) -> Preparation {
        let settings = configuration.settings
        let options = StatusDocument.Options(file: configuration.file, redacts: settings.log.redacts)
        var new = Preparation(
            address: settings.metricsListen, hosts: settings.metricsHosts,
            page: page ?? (Locked(History(lists: settings.lists)), Locked(options)), options: options)
        if let address = new.address, address != service?.address { new.server = try listen(at: address, new, timeout) }
        return new
    }

    private func listen(
        at address: HostAndPort, _ new: Preparation, _ timeout: Duration
    ) throws(SettingsError) -> StatusServer {
        let found: SocketAddress
        do {
            found = try resolver.address(of: address.host, port: address.port, atMost: timeout)
        } catch {
            throw SettingsError(cannotListenAt: address, error.description)
        }
        let router = MetricsRouter(
            board: board, readings: readings, log: log, started: started, history: new.page.history, options: new.page.options)
        do throws(ListenError) {
            return try StatusServer(host: address.host, at: found, hosts: new.hosts, beside: service?.server) {
                router.reply(to: $0.path, query: $0.query)
            }
        } catch .thread(let error) {
            throw SettingsError(key: "metrics_listen", problem: "cannot be served: \(error)", remedy: "")
        } catch {
            throw SettingsError(cannotListenAt: address, error.description)
        }
    }

    /// Serves as prepared. Cannot fail.
    func adopt(_ new: Preparation) {
        guard let address = new.address else { return close() }
        page = new.page
        new.page.options.withLock { $0 = new.options }
        guard let server = new.server else {
            service?.server.allow(hosts: new.hosts)
            return
        }
        service?.server.close()
        service = (address, server)
        readings.observe { [board, history = new.page.history] reading in
            history.withLock { $0.observe(reading, board.latest?.snapshot, now: .now) }
        }
        log.info("Metrics are at http://\(HostAndPort(address.host, server.port).text)/metrics.", .metricsListening)
    }

    func close() {
        guard let old = service.take() else { return }
        readings.observe(nil)
        old.server.close()
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

/// Maps each path to its response. Used by any thread.
struct MetricsRouter: Sendable {
    /// The time that Redis has to respond. After it the response contains only the process's own figures.
    private static let timeout = Duration.seconds(2)

    let board: ProcessBoard
    let readings: RedisReadings
    let log: Log
    let started: WallClock
    let history: Locked<History>
    let options: Locked<StatusDocument.Options>
    private let labels = Locked(AppLabels())
    private let opened = Instant.now

    func reply(to path: String, query: String = "") -> StatusReply? {
        switch path {
        case "/metrics": later(metrics)
        case "/": .now(page)
        case "/status.json": later(withLetters: true) { document($0, appFilter: FormQuery(query)["app"] ?? "") }
        case "/healthz": .now(health)
        case "/readyz": .now(readiness)
        default: nil
        }
    }

    private func later(
        withLetters: Bool = false, _ response: @escaping @Sendable (RedisReading) -> StatusResponse
    ) -> StatusReply {
        .later(
            timeout: Self.timeout, begin: { done in readings.read(withLetters: withLetters) { done(response($0)) } },
            otherwise: { response(RedisReading(taken: .now, fault: "no response within \(Self.timeout.roundedSeconds) s")) })
    }

    private var health: StatusResponse {
        Readiness.isAlive(board.latest, started: opened, now: .now)
            ? StatusResponse(text: "ok\n") : StatusResponse(status: 503, text: "dispatcher loop stalled\n")
    }

    private var readiness: StatusResponse {
        let faults = Readiness.faults(board.latest, now: .now)
        if faults.isEmpty {
            return StatusResponse(text: (["ready"] + Readiness.pauses(board.latest)).map { $0 + "\n" }.joined())
        }
        return StatusResponse(status: 503, text: faults.map { $0 + "\n" }.joined())
    }

    private func metrics(_ reading: RedisReading) -> StatusResponse {
        let text = labels.withLock { labels in
            MetricsReport(reading, board.latest, .now(started: started, log), &labels, now: .now, wallClock: .now()).text
        }
        return StatusResponse(contentType: PrometheusText.contentType, text: text)
    }

    private var page: StatusResponse {
        let nonce = StatusPage.nonce()
        var response = StatusResponse(contentType: "text/html; charset=utf-8", text: StatusPage.html(nonce: nonce))
        response.contentSecurityPolicy = StatusPage.policy(nonce: nonce)
        return response
    }

    private func document(_ reading: RedisReading, appFilter: String) -> StatusResponse {
        let document = StatusDocument(
            reading: reading, notice: board.latest, history: history.withLock { $0 }, system: .now(started: started, log),
            now: .now, wallClock: .now(), options: options.withLock { $0 }, appFilter: appFilter)
        return StatusResponse(contentType: "application/json", body: document.object.bytes)
    }
}

/// The rules of `/healthz` and `/readyz`.
enum Readiness {
    /// A dispatcher that has published nothing for this long is stalled: it publishes at least once a second.
    static let timeout = Duration.seconds(10)

    /// - Parameter started: the start of the wait for the first notice.
    static func isAlive(_ notice: ProcessBoard.Notice?, started: Instant, now: Instant) -> Bool {
        now - (notice?.at ?? started) < timeout
    }

    /// Returns one sentence for each pause. A pause is a decision of the operator, not a fault.
    static func pauses(_ notice: ProcessBoard.Notice?) -> [String] {
        (notice?.snapshot.lists ?? []).flatMap { list in
            list.pauses.map { "list \(list.name.printable): \($0.scopedSentence.printable)" }
        }
    }

    /// What the page says at its top.
    enum State: String {
        case ready
        /// Some apps are held or have no session, and others send.
        case degraded
        case notReady = "not_ready"
    }

    /// Sentences about apps: with many apps, the sentence after them counts the others.
    static let mostApps = 20

    static func state(_ notice: ProcessBoard.Notice?, now: Instant) -> State {
        guard let notice, faultsOfProcess(notice, now: now).isEmpty else { return .notReady }
        let broken = notice.snapshot.apps.count { fault(of: $0) != nil }
        return broken == 0 ? .ready : broken < notice.snapshot.apps.count ? .degraded : .notReady
    }

    /// Returns one sentence for each reason why pushes are not sent.
    static func faults(_ notice: ProcessBoard.Notice?, now: Instant) -> [String] {
        guard let notice else { return ["starting"] }
        var ofApps = Array(notice.snapshot.apps.lazy.compactMap(fault).prefix(mostApps + 1))
        if ofApps.count > mostApps {
            let rest = notice.snapshot.apps.count { fault(of: $0) != nil } - mostApps
            ofApps = ofApps.prefix(mostApps) + ["\(rest.counted("more app")) held or without a session"]
        }
        return faultsOfProcess(notice, now: now) + ofApps
    }

    private static func fault(of app: ProcessSnapshot.App) -> String? {
        if app.isRemoved { return nil }
        if let hold = app.hold { return "app \(app.label.printable) is held: \(hold.sentences.daemon.printable)" }
        return app.capacity == 0 && !app.isIdle ? "app \(app.label.printable): no open session to APNs" : nil
    }

    private static func faultsOfProcess(_ notice: ProcessBoard.Notice, now: Instant) -> [String] {
        let snapshot = notice.snapshot
        var faults: [String] = []
        if now - notice.at >= timeout {
            faults.append("dispatcher loop stalled for \((now - notice.at).roundedSeconds) s")
        }
        if snapshot.isLeaving { faults.append("stopping: no new jobs are claimed") }
        for list in snapshot.lists {
            if !list.isConnected {
                faults.append("list \(list.name.printable): no connection to Redis")
            } else if list.isInDoubt {
                faults.append("list \(list.name.printable): Redis has not responded for most of the lease")
            }
        }
        return faults
    }
}
