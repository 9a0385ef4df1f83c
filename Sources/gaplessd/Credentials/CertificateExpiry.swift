import PushPool

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
