/// Why there are no settings: every fault at once.
struct SettingsErrors: Error, Sendable, Equatable {
    var file: String
    var faults: [SettingsError]
    /// The apps whose credentials are all there, whatever else is wrong.
    var soundApps: [Settings.App] = []
    /// What the others have of theirs.
    var looseFiles: [Settings.LooseFiles] = []
    /// The certificates of both.
    var certificates: [SeenCertificate] = []

    var lines: [String] { faults.map { $0.line(file: file) } }
}
