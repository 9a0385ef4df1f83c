import JSONBytes
import PushPool
import RedisQueue

/// The values of one object of the settings file, the top level or one of `apps`. An absent or invalid key has its default.
struct SettingsDraft: Sendable {
    /// The keys that locate Redis.
    struct RedisLocation: Sendable {
        var host = "127.0.0.1"
        var port = 6379
        var socketPath: String?
        var netAddress: QueueSettings.Server?
        var sentinels: [HostAndPort]?
        var master: String?
        var usesTLS = false
        var tls = RedisTLS()
    }

    /// The keys of the word filter.
    struct FilterKeys: Sendable {
        var words: [String]?
        var path: String?
        var action = WordFilter.Action.drop
    }

    /// The text before a key of this object in a fault: empty, or `apps.NAME.`.
    var prefix = ""
    /// The name of an app; `nil` for the top level.
    var app: String?
    /// The keys of this object and the inherited ones, valid or not. `NAME_file` stands under `NAME`.
    var given: [String: String] = [:]
    /// The keys of this object.
    var own: Set<String> = []
    /// The keys whose value is invalid.
    var invalid: Set<String> = []
    /// The faults of files that contain secrets of this app.
    var faults: [SettingsError] = []

    // An app.
    var server: APNSServer?
    var credential = AppFiles.Credential()
    var topic: String?
    var pool = PoolSettings(host: "", port: 0)

    // The daemon. A value that needs no further check has its field in `settings`.
    var settings = Settings()
    var apps: [JSONMember]?
    var poolSize = PoolSize.fixed(2)
    var mostSessions: Int?
    var redis = RedisLocation()
    var filter = FilterKeys()

    /// Returns the first of the keys that this object has or inherits, as the file names it.
    func firstGiven(_ names: [String]) -> String? { names.lazy.compactMap { given[$0] }.first }

    /// Returns the place of a key that an app may have from the top level.
    func place(of key: String) -> String { own.contains(key) ? prefix + key : key }
}
