import Platform
import PushPool

/// Warns about certificates that expire while the daemon runs: 30, 7 and 1 days before, and at expiry.
struct CertificateWatch {
    private struct Watched {
        /// The settings key, for the log.
        let key: String
        let facts: CertificateFacts
        /// The last step that caused a warning.
        var warned: CertificateExpiry?
    }

    /// The longest interval between two checks, because clocks are set and machines sleep.
    static let longestWait: Int64 = 86_400

    /// By number.
    private var watched: [Int: Watched] = [:]
    private var nextLook: Instant?

    /// - Parameter now: Unix seconds of the start or reload, which has warned already.
    init(_ certificates: [(key: String, facts: CertificateFacts)], now: Int64) {
        for (number, certificate) in certificates.enumerated() { set(certificate, at: number, now: now) }
    }

    /// Replaces the certificate with this number.
    ///
    /// - Parameter now: Unix seconds of the start or reload, which has warned already.
    mutating func set(_ certificate: (key: String, facts: CertificateFacts)?, at number: Int, now: Int64) {
        if certificate == nil && watched[number] == nil { return }
        watched[number] = certificate.map {
            Watched(key: $0.key, facts: $0.facts, warned: CertificateExpiry($0.facts, now: now))
        }
        // At most one look for all changes of a turn.
        nextLook = nil
    }

    /// The time of the next look; `nil` without certificates.
    func deadline(now: Instant) -> Instant? { watched.isEmpty ? nil : nextLook ?? now }

    /// Returns the new warnings, if a look is due.
    mutating func look(now: Instant, wallClock: WallClock) -> [String] {
        guard let due = deadline(now: now), due <= now, let wait = wait(now: wallClock.unixSeconds) else { return [] }
        nextLook = now + .seconds(wait)
        return warnings(now: wallClock.unixSeconds)
    }

    /// Returns the new warnings.
    mutating func warnings(now: Int64) -> [String] {
        var lines: [String] = []
        for (number, certificate) in watched.sorted(by: { $0.key < $1.key }) {
            let (key, facts) = (certificate.key, certificate.facts)
            guard let step = CertificateExpiry(facts, now: now), certificate.warned.map({ $0 < step }) ?? true else {
                continue
            }
            watched[number]?.warned = step
            lines.append("\(key): \(CertificateExpiry.words(facts, now: now)); \(CertificateExpiry.remedy)")
        }
        return lines
    }

    /// Seconds until the next check; `nil` without certificates.
    func wait(now: Int64) -> Int64? {
        guard !watched.isEmpty else { return nil }
        let next = watched.values.compactMap { watched in
            CertificateExpiry.allCases.map { $0.begins(watched.facts) }.first { $0 > now }
        }.min()
        return min(Self.longestWait, next.map { $0 - now } ?? Self.longestWait)
    }
}

/// The steps of the time until a certificate expires. Each step causes a warning.
enum CertificateExpiry: Int64, CaseIterable, Comparable {
    case month = 30
    case week = 7
    case day = 1
    case expired = -1

    static func < (left: Self, right: Self) -> Bool { left.rawValue > right.rawValue }

    static let remedy = "create a new one in the developer account"

    /// `nil` more than 30 days before.
    init?(_ facts: CertificateFacts, now: Int64) {
        guard let step = Self.allCases.last(where: { now >= $0.begins(facts) }) else { return nil }
        self = step
    }

    /// The Unix second from which exactly `rawValue` whole days remain.
    func begins(_ facts: CertificateFacts) -> Int64 { facts.notAfter - (rawValue + 1) * 86_400 + 1 }

    static func words(_ facts: CertificateFacts, now: Int64) -> String {
        let days = facts.daysLeft(now: now)
        if days < 0 { return "the certificate has expired, and APNs rejects it" }
        return "the certificate expires in " + (days < 1 ? "less than a day" : days == 1 ? "1 day" : "\(days) days")
    }
}
