import Glibc
import JSONBytes
import Platform
import PushPool

/// Opens one session to APNs, waits for the server's SETTINGS and closes it. Sends no push.
enum APNSProbe {
    /// - Parameter known: provider token news that was reported before.
    static func run(_ app: Settings.App, known: [TokenNews]) throws(ProbeError) -> String {
        let session: SingleSession
        do throws(SingleSession.Failure) {
            session = try SingleSession(app, known: known)
        } catch {
            throw .refused(error.reason)
        }
        defer { session.close() }
        switch session.opening() {
        case .opened(let address, let streams):
            return "ok, \(address), \(streams.counted("stream"))" + estimate(session.pool, app.pool)
        case .ended(let address, let fault): throw ProbeError(fault, at: address)
        case nil: throw .unavailable("\(app.pool.host):\(app.pool.port) within \(app.pool.dialTimeout)")
        }
    }

    /// Pushes per second that one daemon and a Redis with its own processor carry (docs/performance.md): no distance allows more.
    static let mostPushesPerSecond = 250_000

    /// The longest wait for the response to a PING.
    private static let timeout = Duration.seconds(2)

    /// Returns the pushes per second that the windows admit at the measured distance, or nothing without a response to a PING.
    private static func estimate(_ pool: SessionPool, _ settings: PoolSettings) -> String {
        let deadline = Instant.now + timeout
        while .now < deadline {
            let figures = pool.figures
            guard let roundTrip = figures.shortestRoundTrip else {
                Poller.sleep(.milliseconds(10))
                continue
            }
            let milliseconds = (roundTrip / .milliseconds(1) * 10).rounded() / 10
            let sessions = settings.isAutomatic ? settings.mostSessions : settings.sessions
            // With a signing key, APNs admits one stream until it has accepted a push, and then as many as with a certificate.
            let streams = pool.capacity > 1 ? pool.capacity : settings.maxConcurrentStreams
            let sizes = [("200 B", 200), ("1 KiB", 1024), ("4 KiB", 4096)]
            let rates = sizes.map { name, payload in
                let reach = Reach(roundTrip: roundTrip, window: figures.window, streams: streams, payload: payload)
                return (name: name, rate: reach.pushesPerSecond * Double(sessions))
            }
            return ", round trip \(milliseconds) ms: \(sessions.counted("session")) can carry \(words(rates))"
        }
        return ""
    }

    /// Returns the rates, none of them beyond what Redis and the daemon carry.
    static func words(_ rates: [(name: String, rate: Double)]) -> String {
        let most = Double(mostPushesPerSecond)
        let texts = rates.map { "\(Int(min($0.rate, most)).rounded.grouped) pushes/s of \($0.name)" }
        let isLimited = rates.contains { $0.rate > most }
        return texts.joined(separator: ", ")
            + (isLimited ? " (at most \(mostPushesPerSecond.grouped), which Redis and one daemon carry)" : "")
    }
}

extension ProbeError {
    fileprivate init(_ fault: SessionError, at address: String) {
        switch fault {
        case .dial(let why, isCredential: true): self = .failed("\(address): \(why)")
        case .dial(let why, isCredential: false): self = .unavailable("\(address): \(why)")
        case .untrusted(let why): self = .failed("\(address): \(why); check apns_ca_path and apns_server")
        case .goAway(_, let reason): self = .refused("\(address): GOAWAY \(reason)")
        case .streamReset(let code): self = .unavailable("\(address): RST_STREAM \(code)")
        case .connectionLost(let why): self = .unavailable("\(address): \(why)")
        case .pingUnanswered: self = .unavailable("\(address): no response to PING")
        case .closedByUs, .retired: self = .unavailable("\(address): closed")
        }
    }
}

/// The conclusion from APNs' response to a push with an invented token about the settings of an app.
struct CredentialProof {
    /// Sends one background push, which no device would show, to an invented device token.
    static func run(_ configuration: Configuration, app: Int) throws(ProbeError) -> String {
        guard let topic = configuration.settings.apps[app].defaultTopic else {
            throw .refused("no default topic; set apns_topic, or use 'send --topic'")
        }
        let response: SingleSend.Response
        do {
            var reader = JobReader(retryLimit: 0, appNames: [])
            let job = try reader.read(job(token: inventedToken(), topic: topic))
            response = try SingleSend(configuration, app: app).run(job)
        } catch let error as SingleSend.SendError {
            throw .unavailable(error.description)
        } catch {
            throw .unavailable("\(error)")
        }
        let proof = CredentialProof(status: response.status, reason: response.reason)
        let name = response.statusAndReason
        switch proof.judgement {
        case .proven: return "proven, \(topic): \(name), \(proof.sentence)"
        case .refused: throw .refused("\(topic): \(name), \(proof.sentence)")
        case .unknown: throw .failed("\(topic): \(name), \(proof.sentence)")
        }
    }

    private static func inventedToken() -> String {
        (0..<4).map { _ in
            let digits = String(UInt64.random(in: 0...UInt64.max), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    private static func job(token: String, topic: String) -> [UInt8] {
        JSONValue.members([
            "token": .string(token), "topic": .string(topic), "expiry": .integer(0),
            "push_type": .string(PushTopic(topic).pushType ?? "background"),
            "data": .members(["aps": .members(["content-available": .integer(1)])]),
        ]).bytes
    }

    enum Judgement: Equatable {
        /// Key, team, topic and environment are right.
        case proven
        /// The settings are wrong.
        case refused
        /// The response says nothing about the settings.
        case unknown
    }

    let judgement: Judgement
    /// The rest of a line after the response.
    let sentence: String

    /// - Parameter reason: of APNs; empty for 200.
    init(status: Int, reason: String) {
        (judgement, sentence) =
            switch (status, reason) {
            case (400, "BadDeviceToken"): (.proven, "the credential, the topic and the environment are right")
            case (200..<300, _): (.unknown, "the server accepted an invented token, as a simulator does and APNs does not")
            case (400, "TopicDisallowed"), (400, "BadTopic"), (400, "MissingTopic"):
                (.refused, "the credential is not valid for this topic; check apns_topic")
            case (400, "DeviceTokenNotForTopic"), (410, _):
                (.unknown, "the invented token exists by chance; run the check again")
            case (403, "InvalidProviderToken"):
                (.refused, "APNs rejects the key; check apns_auth_key_path, apns_auth_key_id and apns_team_id")
            case (403, "MissingProviderToken"):
                (.refused, "APNs received no credential; check apns_auth_key_path or apns_cert_path")
            case (403, "ExpiredProviderToken"): (.refused, "the time of the provider token is wrong; check the clock")
            case (403, "UnrelatedKeyIdInToken"):
                (.refused, "the key id is not valid for this team or topic; check apns_auth_key_id and apns_team_id")
            case (403, "BadCertificateEnvironment"),
                (403, _) where HoldReason.badEnvironmentKey.contains(reason):
                (.refused, "the credential is for the other environment; check apns_server")
            case (403, "BadCertificate"): (.refused, "APNs rejects the certificate; check apns_cert_path or apns_p12_path")
            case (403, _): (.refused, "APNs rejects the credential; check the apns_* keys of the app")
            case (429, "TooManyProviderTokenUpdates"):
                (.unknown, "the key was used with several provider tokens within 20 minutes; try again later")
            case (429, _): (.unknown, "APNs limits the requests; try again later")
            case (500..., _): (.unknown, "APNs cannot answer now; try again later")
            default: (.unknown, "APNs rejected the push for another reason, which proves nothing about the settings")
            }
    }
}

/// Tests whether the daemon can bind `metrics_listen`.
enum ListenProbe {
    static func run(_ address: HostAndPort) throws(ProbeError) -> String {
        do throws(SocketError) {
            _ = try Listener(host: address.host, port: address.port)
            return "ok, \(address.text)"
        } catch .system(_, errno: EADDRINUSE) {
            guard let health = HealthRequest.send(to: address) else {
                let why = unsafe "\(String(cString: strerror(EADDRINUSE))) by another program"
                throw .refused(SettingsError(cannotListenAt: address, why).line)
            }
            let note = health == "ok" ? "" : ", which reports: \(health.printable)"
            return "ok, \(address.text), bound by a running gaplessd\(note)"
        } catch {
            throw .refused(SettingsError(cannotListenAt: address, error.reason).line)
        }
    }
}

extension SocketError {
    /// The description without the name of the system call.
    fileprivate var reason: String {
        if case .system(_, let code) = self { unsafe String(cString: strerror(code)) } else { description }
    }
}
