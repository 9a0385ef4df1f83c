import PushPool

/// Everything that runs until a signal ends it.
enum Daemon {
    /// Returns the exit status.
    static func run(settings: Settings, credentials: [AppCredential], log: Log) -> Int32 {
        log.error("This build has no dispatcher.")
        return 1
    }
}
