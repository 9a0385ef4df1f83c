/// One app of the settings file with the files that it names. Files of a faulty app are checked as well.
struct AppFiles: Sendable, Equatable {
    /// The keys of a credential, as far as the settings have them.
    struct Credential: Sendable, Equatable {
        var certificatePath: String?
        var keyPath: String?
        var keyPassword: Secret?
        var pkcs12Path: String?
        var pkcs12Password: Secret?
        var signingKeyPath: String?
        var keyID: String?
        var teamID: String?

        var namesCertificate: Bool { certificatePath != nil || pkcs12Path != nil }
    }

    /// `nil` is the top level.
    var name: String?
    /// The part of a fault's key that precedes the key of this app.
    var prefix: String
    var credential: Credential
    /// `apns_ca_path`
    var rootsPath: String?
    /// The place of `apns_ca_path`, which an app may inherit.
    var rootsKey: String
    /// The faults of its secrets that are in files. They concern this app alone.
    var faults: [SettingsError] = []
    /// `nil` if the credential of the app is incomplete or faulty.
    var app: Settings.App?
}
