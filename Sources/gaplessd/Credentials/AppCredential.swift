import PushPool

/// The credential of one app, or why it cannot be used.
struct AppCredential: Sendable {
    /// `nil` if it cannot be used: the app is held.
    var credential: Credential?
    /// The part of the credential that a pool needs; `nil` without a credential. The files are read once for the check and the
    /// pool.
    var setup: SessionPool.Setup?
    /// For jobs that name none: `apns_topic`, else the topic of the certificate.
    var topic: String?
    /// The content of the client certificate, also of one that cannot be used; `nil` for a signing key, and if it cannot be read.
    var certificate: CertificateFacts?
    /// Why the credential cannot be used; empty if it can.
    var faults: [SettingsError] = []
    /// Whether the certificate cannot be read: it may have any topic.
    var hasUnknownTopics = false
    /// The content of all its files. Only values of one process are comparable.
    var digest = 0
}
