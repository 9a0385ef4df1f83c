import PushPool

/// All faults of a settings file and of the files that it names.
struct SettingsErrors: Error, Sendable, Equatable {
    /// A client certificate that was readable. `check` shows it even if the credential cannot be used.
    struct Certificate: Sendable, Equatable {
        enum Owner: Sendable, Equatable {
            /// `nil` is the top level.
            case app(String?)
            case redis
        }

        var owner: Owner
        var path: String
        var facts: CertificateFacts
    }

    var file: String
    var faults: [SettingsError]
    /// The apps of the file, faulty ones included, so that their files can be checked as well.
    var apps: [AppFiles] = []
    var certificates: [Certificate] = []
    /// The files that the settings name.
    var files: Set<String> = []

    var lines: [String] { faults.map { $0.line(file: file) } }
}
