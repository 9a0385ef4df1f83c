import Glibc
import Platform

/// Settings and the credentials that they name, read completely or not at all.
struct Configuration: Sendable {
    /// The path of the settings.
    var file: String
    var settings: Settings
    /// One for each of `settings.apps`, in their order.
    var credentials: [AppCredential]
    /// `nil` without a filter.
    var filter: WordFilter?
    /// For connections to Redis; `nil` without TLS.
    var redisTLS: TLSContext?
    /// The client certificate for Redis; `nil` without one.
    var redisCertificate: SettingsErrors.Certificate?
    /// The folder that keeps provider tokens between starts.
    var stateFolder: String?
    /// The settings file and the files that it names.
    var files: Set<String>
    /// The keys of the top level, then those of each of `apps`, for `check --effective`.
    var drafts: [SettingsDraft]
    /// Lines for the log.
    var warnings: [String]

    /// - Parameters:
    ///   - now: Unix seconds, for the dates of certificates.
    ///   - holdsFaultyApps: whether a faulty file of one app holds that app alone, as long as another app can send.
    static func load(
        _ file: SettingsFile, now: Int64 = Int64(time(nil)), holdsFaultyApps: Bool = false
    ) throws(SettingsErrors) -> Configuration {
        let stateFolder = StateFolder.path(environment: file.environment, isRoot: geteuid() == 0)
        var loader = CredentialLoader(now: now, stateFolder: stateFolder)
        let reading: Settings.Reading
        do {
            reading = try Settings.read(file)
        } catch {
            for certificate in error.certificates { loader.show(certificate, at: "redis_cert_path") }
            // The files of the apps are checked as well, so that one run reports every fault.
            _ = loader.load(error.apps)
            throw SettingsErrors(
                file: file.path, faults: error.faults + loader.findings.faults, apps: error.apps,
                certificates: loader.certificates, files: error.files)
        }
        if let certificate = reading.redisCertificate { loader.show(certificate, at: "redis_cert_path") }
        let isFaulty = !loader.findings.faults.isEmpty
        let credentials = loader.load(reading.apps)
        let isHeld = credentials.contains { $0.credential == nil }
        guard !isFaulty, !isHeld || holdsFaultyApps && credentials.contains(where: { $0.credential != nil }) else {
            throw SettingsErrors(
                file: file.path, faults: loader.findings.faults, apps: reading.apps, certificates: loader.certificates,
                files: reading.files)
        }
        return Configuration(
            file: file.path, settings: reading.settings, credentials: credentials,
            filter: reading.settings.filter.map { WordFilter($0.words, action: $0.action) }, redisTLS: reading.redisTLS,
            redisCertificate: reading.redisCertificate, stateFolder: stateFolder, files: reading.files, drafts: reading.drafts,
            warnings: (reading.warnings + loader.findings.warnings).map { $0.line(file: file.path) })
    }
}

/// The folder for data that outlives a start: provider tokens, which APNs allows to change only rarely.
enum StateFolder {
    /// The first `StateDirectory=` of the systemd unit; else `/var/lib/gaplessd` for root, or the folder of the user (XDG base
    /// directories). `nil` if the environment names none.
    static func path(environment: (String) -> String?, isRoot: Bool) -> String? {
        func folder(_ name: String) -> String? { environment(name).flatMap { $0.hasPrefix("/") ? $0 : nil } }
        if let given = folder("STATE_DIRECTORY") { return given.split(separator: ":").first.map(String.init) }
        if isRoot { return "/var/lib/gaplessd" }
        if let state = folder("XDG_STATE_HOME") { return "\(state)/gaplessd" }
        return folder("HOME").map { "\($0)/.local/state/gaplessd" }
    }
}
