import PushPool

/// What one app shows to APNs.
struct AppCredential: Sendable {
    var credential: Credential
    /// For jobs that name none: `apns_topic`, else the certificate's own.
    var topic: String?
    /// What a pool needs to begin, or to go on with it: the files are read once for check and use.
    var setup: SessionPool.Setup
}
