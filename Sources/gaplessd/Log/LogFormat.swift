/// The values of `log_format`.
enum LogFormat: String, Sendable, CaseIterable {
    case text
    /// One JSON object a line.
    case json
    /// The format `text` after a priority for systemd's journal (sd-daemon(3)).
    case journal
}
