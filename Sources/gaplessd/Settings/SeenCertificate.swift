import PushPool

/// A client certificate that the settings name and that could be read: `check` shows it, whatever is wrong with it or the rest.
struct SeenCertificate: Sendable, Equatable {
    /// `nil` is the top level.
    var app: String?
    var path: String
    var facts: CertificateFacts
}
