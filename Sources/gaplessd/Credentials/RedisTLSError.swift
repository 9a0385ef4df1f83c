/// What is wrong with the files for TLS to Redis. They were read once with the settings: since then somebody has changed them.
struct RedisTLSError: Error, Equatable {
    var faults: [SettingsError]
}
