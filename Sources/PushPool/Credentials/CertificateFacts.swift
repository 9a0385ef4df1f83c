internal import Clocks

/// What an APNs client certificate says of itself.
public struct CertificateFacts: Sendable, Equatable {
    /// The subject on one line.
    public var subject: String
    /// The subject's UID (0.9.2342.19200300.100.1.1): the default topic.
    public var userID: String?
    /// Topics of extension 1.2.840.113635.100.6.3.6, in its order; empty where there is no such extension.
    public var topics: [String]
    /// Unix seconds.
    public var notBefore: Int64
    /// Unix seconds.
    public var notAfter: Int64
    /// Extension 1.2.840.113635.100.6.3.1: good for the sandbox.
    public var isForDevelopment: Bool
    /// Extension 1.2.840.113635.100.6.3.2: good for production.
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

    /// The topic of a push that names none: the UID, or the certificate's only topic.
    public var defaultTopic: String? { userID ?? (topics.count == 1 ? topics.first : nil) }

    /// Whole days until it expires; negative afterwards.
    public func daysLeft(now: Int64) -> Int64 {
        let seconds = notAfter - now
        return seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
    }

    /// What is wrong with its dates; `nil` where nothing is.
    public func faultOfDates(now: Int64) -> CredentialError? {
        do {
            try checkDates(now: now)
            return nil
        } catch { return error }
    }

    func checkDates(now: Int64) throws(CredentialError) {
        if now > notAfter {
            throw CredentialError(
                "the certificate expired on \(UTCDate.day(notAfter)); a new one is made in the developer account")
        }
        if now < notBefore {
            throw CredentialError(
                "the certificate is not valid before \(UTCDate.day(notBefore)); is this machine's clock right?")
        }
    }
}
