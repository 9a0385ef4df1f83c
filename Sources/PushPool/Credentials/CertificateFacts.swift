internal import Platform

/// The content of an APNs client certificate.
public struct CertificateFacts: Sendable, Equatable {
    /// The subject on one line.
    public var subject: String
    /// The subject's UID (0.9.2342.19200300.100.1.1): the default topic.
    public var userID: String?
    /// Topics of extension 1.2.840.113635.100.6.3.6 in its order; empty without the extension.
    public var topics: [String]
    /// Unix seconds.
    public var notBefore: Int64
    /// Unix seconds.
    public var notAfter: Int64
    /// Whether extension 1.2.840.113635.100.6.3.1 is present: valid for the sandbox.
    public var isForDevelopment: Bool
    /// Whether extension 1.2.840.113635.100.6.3.2 is present: valid for production.
    public var isForProduction: Bool

    public init(
        subject: String, userID: String?, topics: [String], notBefore: Int64, notAfter: Int64, isForDevelopment: Bool,
        isForProduction: Bool
    ) {
        self.subject = subject
        self.userID = userID
        self.topics = topics
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.isForDevelopment = isForDevelopment
        self.isForProduction = isForProduction
    }

    /// The topic of a push without one: the UID, or the certificate's only topic.
    public var defaultTopic: String? { userID ?? (topics.count == 1 ? topics.first : nil) }

    /// Returns the whole days until it expires; negative afterwards.
    public func daysLeft(now: Int64) -> Int64 {
        let seconds = notAfter - now
        return seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
    }

    /// Returns the error in its dates, or `nil` if they are valid.
    public func faultOfDates(now: Int64) -> CredentialError? {
        do {
            try checkDates(now: now)
            return nil
        } catch { return error }
    }

    func checkDates(now: Int64) throws(CredentialError) {
        if now > notAfter {
            throw CredentialError(
                "the certificate expired on \(UTCDate.day(notAfter)); expected a valid one")
        }
        if now < notBefore {
            throw CredentialError(
                "the certificate is not valid before \(UTCDate.day(notBefore)); expected a valid one, or a correct clock")
        }
    }
}
