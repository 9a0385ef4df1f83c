import Clocks
import Glibc

/// One line on a terminal's stderr that is written over and over; nothing at all anywhere else.
struct ProgressBar {
    private static let interval = Duration.milliseconds(100)
    private static let width = 30

    private let isShown = StandardStreams.isTerminal(STDERR_FILENO)
    private var due = Instant.now + interval
    private var isDrawn = false

    /// - Parameters:
    ///   - share: of the whole, 0 to 1; `nil` where the whole is not known.
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

    /// Takes the line away, before another one is written or at the end.
    mutating func clear() {
        guard isDrawn else { return }
        isDrawn = false
        StandardStreams.write(Array("\r\u{1B}[K".utf8), to: STDERR_FILENO)
    }
}
