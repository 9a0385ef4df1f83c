import PushPool
import RedisQueue

/// The lines that `check` prints about settings, credentials and certificates.
struct CheckReport {
    let lines: [String]

    /// The readable certificates of rejected settings.
    init(_ refusal: SettingsErrors, now: Int64) {
        let blocks = refusal.certificates.map { seen in
            switch seen.owner {
            case .app(let name):
                [Self.title(name), "certificate \(seen.path.printable)"] + Self.lines(seen.facts, now: now)
            case .redis: ["redis"] + Self.redisLines(seen, now: now)
            }
        }
        lines = Array(blocks.joined(separator: [""]))
    }

    /// Valid settings.
    ///
    /// - Parameter now: Unix seconds.
    init(_ configuration: Configuration, now: Int64) {
        let settings = configuration.settings
        let redis = settings.redis
        let server = redis.server.text + (redis.tls == nil ? "" : " with TLS")
        var lines = [
            "redis       \(server), database \(redis.database), \(redis.delivery.text)"
        ]
        if let certificate = configuration.redisCertificate { lines += Self.redisLines(certificate, now: now) }
        lines += [
            "lists       \(settings.lists.map(\.printable).joined(separator: ", "))",
            "retries     \(settings.retryLimit), after \(settings.retryDelays.map(\.secondsText).joined(separator: ", ")) s",
        ]
        if let address = settings.metricsListen { lines.append("metrics     http://\(address.text)/metrics") }
        if let filter = settings.filter {
            lines.append("filter      \(filter.words.count.counted("word")), \(filter.action.rawValue)")
        }
        for app in settings.apps {
            lines += ["", Self.title(app.name)]
            lines += Self.lines(app, configuration.stateFolder, now: now)
        }
        self.lines = lines + ["", "settings: ok"]
    }

    private static func lines(_ app: Settings.App, _ tokenFolder: String?, now: Int64) -> [String] {
        var lines = [
            "server      \(HostAndPort(app.pool.host, app.pool.port).text), \(app.pool.sessionsText)",
            "credential  \(app.credential?.description.printable ?? "cannot be used")",
        ]
        if let proxy = app.pool.proxy {
            lines.append("proxy       \(proxy)\(proxy.user.map { ", user \($0.printable)" } ?? "")")
        }
        if case .signingKey = app.source {
            let place = tokenFolder.map { "kept in \($0.printable)" } ?? "kept in memory only: STATE_DIRECTORY is not set"
            lines.append("tokens      \(place)")
        }
        if let facts = app.certificate { lines += Self.lines(facts, now: now) }
        return lines + ["topic       \(app.defaultTopic?.printable ?? "set by each job")"]
    }

    private static func title(_ app: String?) -> String { "app         \(app.map(\.orQuotes.printable) ?? "(top level)")" }

    /// A certificate for Redis has no topics.
    private static func redisLines(_ certificate: SettingsErrors.Certificate, now: Int64) -> [String] {
        ["certificate \(certificate.path.printable)", subject(certificate.facts)] + dates(certificate.facts, now: now)
    }

    private static func lines(_ facts: CertificateFacts, now: Int64) -> [String] {
        let topics = facts.allTopics
        return [subject(facts), "topics      \(topics.isEmpty ? "none" : topics.joined(separator: ", ").printable)"]
            + dates(facts, now: now)
    }

    private static func subject(_ facts: CertificateFacts) -> String { "subject     \(facts.subject.printable)" }

    private static func dates(_ facts: CertificateFacts, now: Int64) -> [String] {
        var lines: [String] = []
        // Rounded up: a certificate that becomes valid within the day is not valid yet.
        if facts.notBefore > now { lines.append("begins      in \(((facts.notBefore - now + 86_399) / 86_400).counted("day"))") }
        let left = facts.daysLeft(now: now)
        if left >= 0 {
            lines.append("expires     in \(left.counted("day"))")
        } else {
            // daysLeft rounds down: half a day after expiry it is -1.
            lines.append("expired     \(left == -1 ? "less than a day" : (-left - 1).counted("day")) ago")
        }
        return lines
    }
}

extension QueueSettings.DeliveryMode {
    fileprivate var text: String {
        switch self {
        case .atLeastOnce: "at least once"
        case .atMostOnce: "at most once"
        }
    }
}

extension Duration {
    /// Seconds as `0.5` or `60`.
    fileprivate var secondsText: String {
        let seconds = self / .seconds(1)
        return seconds == seconds.rounded() ? String(Int64(seconds)) : String(seconds)
    }
}

extension PoolSettings {
    fileprivate var sessionsText: String {
        isAutomatic || mostSessions > sessions && scale != .constant
            ? "\(sessions) to \(mostSessions) sessions" : sessions.counted("session")
    }
}
