import PushPool

/// Warns of certificates that come to their end while the daemon runs: at 30, 7 and 1 days, and once it has come.
///
/// A pure value: time goes in, sentences come out.
struct CertificateWatch {
    private struct Watched {
        /// Of the app's settings key, for the log.
        let key: String
        let facts: CertificateFacts
        /// The last step that was warned of.
        var warned: CertificateEnd?
    }

    /// Clocks are set and machines sleep: what is due is looked up anew at least so often.
    static let longestWait: Int64 = 86_400

    private var watched: [Watched]

    /// - Parameter now: Unix seconds, at which the start or the reload has warned.
    init(_ configuration: Configuration, now: Int64) {
        let apps = zip(configuration.settings.apps, configuration.credentials)
        let certificates = apps.compactMap { app, own in
            own.credential.certificate.map { (key: app.keyPrefix + app.credential.certificateKey, facts: $0) }
        }
        self.init(certificates, now: now)
    }

    init(_ certificates: [(key: String, facts: CertificateFacts)], now: Int64) {
        watched = certificates.map { Watched(key: $0.key, facts: $0.facts, warned: CertificateEnd($0.facts, now: now)) }
    }

    /// Sentences that are new now.
    mutating func warnings(now: Int64) -> [String] {
        var lines: [String] = []
        for index in watched.indices {
            let (key, facts) = (watched[index].key, watched[index].facts)
            guard let end = CertificateEnd(facts, now: now), watched[index].warned.map({ $0 < end }) ?? true else { continue }
            watched[index].warned = end
            lines.append("\(key): \(CertificateEnd.words(facts, now: now)); \(CertificateEnd.remedy)")
        }
        return lines
    }

    /// Seconds until it is worth asking again; `nil` where no app has a certificate.
    func wait(now: Int64) -> Int64? {
        guard !watched.isEmpty else { return nil }
        let next = watched.compactMap { watched in
            CertificateEnd.allCases.map { $0.begins(watched.facts) }.first { $0 > now }
        }.min()
        return min(Self.longestWait, next.map { $0 - now } ?? Self.longestWait)
    }
}
