import Platform

/// Everything that the status page shows.
struct PageFacts {
    var reading: RedisReading
    /// The dispatcher's latest; `nil` before its first.
    var notice: ProcessBoard.Notice?
    var history: History
    var system: SystemFacts
    var droppedLines = 0
    var now: Instant
    var wallClock: WallClock
    var options: Options

    /// The settings that concern the page.
    struct Options: Sendable {
        /// The path of the settings, for commands.
        var file: String
        /// Whether device tokens are cut (`log_redact`).
        var redacts: Bool
    }
}
