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

        /// Seconds until its next step, or to the next look at it.
        func wait(now: Int64) -> Int64 {
            let next = CertificateExpiry.allCases.lazy.map { $0.begins(facts) }.first { $0 > now }
            return min(CertificateWatch.longestWait, next.map { $0 - now } ?? CertificateWatch.longestWait)
        }
    }

    /// The longest interval between two checks, because clocks are set and machines sleep.
    static let longestWait: Int64 = 86_400

    /// By number.
    private var watched: [Int: Watched] = [:]
    /// The certificates that were set since the last look: a change of one of thousands looks at that one alone.
    private var unseen: Set<Int> = []
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
        unseen.insert(number)
    }

    /// The time of the next look; `nil` without certificates.
    func deadline(now: Instant) -> Instant? {
        if watched.isEmpty { return nil }
        guard let nextLook, unseen.isEmpty else { return now }
        return nextLook
    }

    /// Returns the new warnings, if a look is due: at all certificates, or at those that were set since the last one.
    mutating func look(now: Instant, wallClock: WallClock) -> [String] {
        guard let due = deadline(now: now), due <= now else { return [] }
        defer { unseen.removeAll() }
        guard let end = nextLook, end > now else {
            nextLook = wait(now: wallClock.unixSeconds).map { now + .seconds($0) }
            return warnings(now: wallClock.unixSeconds)
        }
        let new = unseen.sorted()
        for number in new {
            guard let wait = watched[number]?.wait(now: wallClock.unixSeconds) else { continue }
            nextLook = min(nextLook ?? end, now + .seconds(wait))
        }
        return warnings(of: new, now: wallClock.unixSeconds)
    }

    /// Returns the new warnings.
    mutating func warnings(now: Int64) -> [String] {
        warnings(of: watched.filter { CertificateExpiry($1.facts, now: now) != $1.warned }.keys.sorted(), now: now)
    }

    private mutating func warnings(of numbers: [Int], now: Int64) -> [String] {
        var lines: [String] = []
        for number in numbers {
            guard let certificate = watched[number] else { continue }
            let (key, facts) = (certificate.key, certificate.facts)
            guard let step = CertificateExpiry(facts, now: now), certificate.warned.map({ $0 < step }) ?? true else {
                continue
            }
            watched[number]?.warned = step
            lines.append("\(key): \(CertificateExpiry.words(facts, now: now)); \(CertificateExpiry.remedy)")
        }
        return lines
    }

    /// Seconds until the next look at all certificates; `nil` without certificates.
    func wait(now: Int64) -> Int64? { watched.values.map { $0.wait(now: now) }.min() }
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
