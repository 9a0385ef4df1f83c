import Glibc
import Platform

/// A progress line on stderr, redrawn in place. Silent if stderr is not a terminal.
struct ProgressBar {
    private static let interval = Duration.milliseconds(100)
    private static let width = 30

    private let isShown = StandardStreams.isTerminal(STDERR_FILENO)
    private var due = Instant.now + interval
    private var isDrawn = false

    /// - Parameter share: the completed fraction, 0 to 1; `nil` if the total is unknown.
    mutating func update(share: Double?, _ text: String) {
        guard isShown, .now >= due else { return }
        due = .now + Self.interval
        isDrawn = true
        var bar = ""
        if let share {
            let full = Int(Double(Self.width) * min(1, max(0, share)))
            let percent = Int(100 * min(1, max(0, share)))
            bar = "[" + String(repeating: "#", count: full) + String(repeating: " ", count: Self.width - full) + "] \(percent)% "
        }
        StandardStreams.write(Array("\r\(bar)\(text)\u{1B}[K".utf8), to: STDERR_FILENO)
    }

    /// Erases the line, before other output and at the end.
    mutating func clear() {
        guard isDrawn else { return }
        isDrawn = false
        StandardStreams.write(Array("\r\u{1B}[K".utf8), to: STDERR_FILENO)
    }
}
