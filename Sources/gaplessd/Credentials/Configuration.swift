import Glibc
import Sockets

/// Settings and the credentials that they name: all that a call needs from files. Read whole, or not at all.
struct Configuration: Sendable {
    /// The path of the settings.
    var file: String
    var settings: Settings
    /// One for each of `settings.apps`, in their order.
    var credentials: [AppCredential]
    /// `nil` where nothing is filtered.
    var filter: WordFilter?
    /// For connections to Redis; `nil` without TLS.
    var redisTLS: TLSContext?
    /// Where provider tokens are kept between starts.
    var stateFolder: String?
    /// Nothing is wrong, but the operator should know: lines for the log.
    var warnings: [String]

    /// - Parameter now: Unix seconds, for the dates of certificates.
    static func load(_ file: SettingsFile, now: Int64 = Int64(time(nil))) throws(SettingsErrors) -> Configuration {
        let reading: Settings.Reading
        let stateFolder = StateFolder.path(environment: file.environment, isRoot: geteuid() == 0)
        var loader = CredentialLoader(now: now, stateFolder: stateFolder)
        do {
            reading = try Settings.read(file)
        } catch {
            // Files that the sound part names are looked at all the same: one run shows everything.
            _ = loader.load(error.soundApps)
            loader.look(at: error.looseFiles)
            throw loader.refusal(file.path, error.faults + loader.faults)
        }
        let credentials = loader.load(reading.settings.apps)
        guard loader.faults.isEmpty else { throw loader.refusal(file.path, loader.faults) }
        let warnings = (reading.warnings + loader.warnings).map { $0.line(file: file.path) }
        do {
            return Configuration(
                file: file.path, settings: reading.settings, credentials: credentials,
                filter: reading.settings.filter.map { WordFilter($0.words, action: $0.action) },
                redisTLS: try reading.settings.redis.tlsContext(), stateFolder: stateFolder, warnings: warnings)
        } catch {
            throw loader.refusal(file.path, error.faults)
        }
    }
}
