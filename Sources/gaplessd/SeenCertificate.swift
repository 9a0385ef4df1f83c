import PushPool

/// A client certificate that the settings name and that could be read, whatever is wrong with it or with the rest: `check` shows it.
struct SeenCertificate: Sendable, Equatable {
    /// `nil` is the top level.
    var app: String?
    var path: String
    var facts: CertificateFacts
}
