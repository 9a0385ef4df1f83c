import PushPool

/// How near a certificate's end is: each step is worth a warning.
enum CertificateEnd: Int64, CaseIterable, Comparable {
    case month = 30
    case week = 7
    case day = 1
    case over = -1

    static func < (left: Self, right: Self) -> Bool { left.rawValue > right.rawValue }

    static let remedy = "a new one from the developer account would be right"

    /// `nil` while it is far away.
    init?(_ facts: CertificateFacts, now: Int64) {
        guard let end = Self.allCases.last(where: { now >= $0.begins(facts) }) else { return nil }
        self = end
    }

    /// Unix seconds: when so many whole days are left, and not one more.
    func begins(_ facts: CertificateFacts) -> Int64 { facts.notAfter - (rawValue + 1) * 86_400 + 1 }

    /// What is wrong, for people.
    static func words(_ facts: CertificateFacts, now: Int64) -> String {
        let days = facts.daysLeft(now: now)
        if days < 0 { return "the certificate has expired, and APNs refuses it" }
        return "the certificate expires in " + (days < 1 ? "less than a day" : days == 1 ? "1 day" : "\(days) days")
    }
}
