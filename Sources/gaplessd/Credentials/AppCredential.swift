import PushPool

/// The credential of one app.
struct AppCredential: Sendable {
    var credential: Credential
    /// For jobs that name none: `apns_topic`, else the topic of the certificate.
    var topic: String?
    /// The part of the credential that a pool needs. The files are read once for the check and the pool.
    var setup: SessionPool.Setup
}
