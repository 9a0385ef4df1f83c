import Glibc
import Platform

/// The settings with all that belongs to them, read completely or not at all.
struct Configuration: Sendable {
    /// The path of the settings.
    var file: String
    var settings: Settings
    /// `nil` without a filter.
    var filter: WordFilter?
    /// For connections to Redis; `nil` without TLS.
    var redisTLS: TLSContext?
    /// The client certificate for Redis; `nil` without one.
    var redisCertificate: SettingsErrors.Certificate?
    /// The folder that keeps provider tokens, and the last figures of the lists, between starts.
    var stateFolder: String?
    /// The settings file and the files that it names.
    var files: Set<String>
    /// The keys of the top level, then those of each of `apps` and `apps_dir`, for `check --effective`. The daemon keeps only the
    /// first.
    var drafts: [SettingsDraft]
    /// `nil` without `apps_dir`.
    var appFolder: AppFolder?
    var warnings: [SettingsError]

    var warningLines: [String] { warnings.map { $0.line(file: file) } }

    /// Thousands of apps may have the same mistake, and each reload would log it for each of them.
    static let mostLoggedWarnings = 100

    /// The first warnings, and the number of the others.
    var loggedWarnings: [String] {
        let lines = warnings.prefix(Self.mostLoggedWarnings).map { $0.line(file: file) }
        let others = warnings.count - lines.count
        return others == 0 ? lines : lines + ["\(file): \(others.counted("more warning")); gaplessd check prints them"]
    }

    /// Reads a settings file and the secrets that it names, but no credential.
    ///
    /// - Throws: every fault in them.
    static func read(_ file: SettingsFile) throws(SettingsErrors) -> Configuration {
        var reader = SettingsReader(file: file)
        var new = try reader.read(try file.members())
        new.stateFolder = StateFolder.path(of: file)
        return new
    }

    /// Reads a settings file, the secrets and the credentials that it names.
    ///
    /// - Parameters:
    ///   - now: Unix seconds, for the dates of certificates.
    ///   - holdsFaultyApps: whether a faulty file of one app holds that app alone, as long as another app can send.
    ///   - known: apps that were read before. Those whose keys and files are the same are not read again.
    static func load(
        _ file: SettingsFile, now: Int64 = Int64(time(nil)), holdsFaultyApps: Bool = false, known: [Settings.App] = []
    ) throws(SettingsErrors) -> Configuration {
        var loader = CredentialLoader(now: now, stateFolder: StateFolder.path(of: file))
        var new: Configuration
        do {
            new = try read(file)
        } catch {
            for certificate in error.certificates { loader.show(certificate, at: "redis_cert_path") }
            // The files of the apps are checked as well, so that one run reports every fault.
            var apps = error.apps
            loader.load(&apps)
            throw SettingsErrors(
                file: file.path, faults: error.faults + loader.findings.faults, certificates: loader.certificates,
                files: error.files)
        }
        if let certificate = new.redisCertificate { loader.show(certificate, at: "redis_cert_path") }
        let isFaulty = !loader.findings.faults.isEmpty
        loader.load(&new.settings.apps, known: known)
        let canSend = new.settings.apps.map { $0.credential != nil }
        guard !isFaulty, holdsFaultyApps ? canSend.contains(true) || canSend.isEmpty : !canSend.contains(false) else {
            throw SettingsErrors(
                file: file.path, faults: loader.findings.faults, certificates: loader.certificates, files: new.files)
        }
        new.filter = new.settings.filter.map { WordFilter($0.words, action: $0.action) }
        new.warnings += loader.findings.warnings
        if holdsFaultyApps { new.drafts.removeLast(new.drafts.count - 1) }
        return new
    }
}

/// The folder for data that outlives a start: provider tokens, which APNs allows to change only rarely, and the last figures of
/// the lists, which show that Redis has lost data.
enum StateFolder {
    static func path(of file: SettingsFile) -> String? { path(environment: file.environment, isRoot: geteuid() == 0) }

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
