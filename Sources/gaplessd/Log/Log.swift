import Synchronization
import Threads

/// The lines of gaplessd, and the one place that knows their wording (contract, section 6).
///
/// Any thread may call it. A call costs a lock and a copy, of one line or of a batch of `Sent:`, and never waits for a disk, a pipe or a reader: `LogWriter` has a
/// thread for that. Lines that find no room are dropped and counted.
final class Log: Sendable {
    enum Format: String, Sendable, CaseIterable {
        case text
        /// One object a line.
        case json
        /// As `text`, after a priority as systemd's journal reads it (sd-daemon(3)).
        case journal
    }

    enum Level: Int, Sendable, Comparable, CaseIterable {
        case debug, info, warning, error

        init?(name: String) {
            guard let level = Self.allCases.first(where: { $0.name == name }) else { return nil }
            self = level
        }

        var name: String { "\(self)" }

        static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }

    /// A valid job is repeated up to here, so that no line outgrows the writer's buffer.
    static let mostJobBytes = 1 << 20
    /// Of bytes that are no job, so many show which producer to ask.
    static let mostBadBytes = 64 << 10

    /// The raw value of `level`: any thread may log while a reload changes it.
    private let threshold: Atomic<Int>
    private let writer: LogWriter

    /// - Parameters:
    ///   - output: gets `Sent:` and information.
    ///   - errors: gets warnings and errors.
    init(format: Format = .text, level: Level = .info, output: CInt = 1, errors: CInt = 2) throws(ThreadError) {
        threshold = Atomic(level.rawValue)
        writer = try LogWriter(format: format, output: output, errors: errors)
    }

    private var level: Level { Level(rawValue: threshold.load(ordering: .relaxed)) ?? .debug }

    /// What is logged from now on, and how.
    func change(format: Format, level: Level) {
        threshold.store(level.rawValue, ordering: .relaxed)
        writer.change(format: format)
    }

    /// How many lines found no room, or could not be written, so far.
    var droppedLines: Int { writer.droppedLines }

    /// Writes what is left, for two seconds at most, and ends the writer's thread. What is logged afterwards is dropped.
    func close() { writer.close() }

    // MARK: What happened to a job

    /// APNs has these. Each job is valid JSON, redacted where that is wanted.
    func sent(_ jobs: [[UInt8]]) {
        if level > .info { return }
        writer.append(sent: jobs)
    }

    /// It goes out again later; `count` is how often it will then have been resent.
    func retrying(identifier: String, _ reason: String, count: Int) {
        if level > .warning { return }
        writer.append(.warning) { line in
            line.message("SendPayload Error")
            line.identifier(identifier)
            line.field("reason", reason, after: ": ")
            line.number("retry", count, after: ". Retrying count (", before: ").")
        }
    }

    /// It is a dead letter. `job` is valid JSON without line breaks, redacted where that is wanted.
    func final(identifier: String, _ reason: String, job: [UInt8]) {
        writer.append(.error) { line in
            line.message("Final SendPayload Error")
            line.identifier(identifier)
            line.field("reason", reason, after: ": ")
            line.text(" | ")
            line.validJob(job)
            line.text(".")
        }
    }

    /// An element of the list cannot be pushed. With `redacts`, the line contains only the element's length.
    func badJob(_ job: [UInt8], _ error: JobError, redacts: Bool) {
        let message: StaticString =
            switch error.kind {
            case .unmarshal: "Json unmarshal error"
            case .structure: "Parsing apns structure error"
            }
        writer.append(.error) { line in
            line.message(message)
            line.text(" (")
            line.badJob(job, redacts: redacts)
            line.field("reason", error.description, after: "): ", before: ".")
        }
    }

    // MARK: Anything else, as a whole sentence

    func debug(_ message: @autoclosure () -> String) {
        if level == .debug { sentence(.debug, message()) }
    }

    func info(_ message: @autoclosure () -> String) {
        if level <= .info { sentence(.info, message()) }
    }

    func warning(_ message: @autoclosure () -> String) {
        if level <= .warning { sentence(.warning, message()) }
    }

    func error(_ message: String) { sentence(.error, message) }

    /// What an operator has asked for: at any level.
    func answer(_ message: String) { sentence(.info, message) }

    private func sentence(_ level: Level, _ message: String) {
        writer.append(level) { $0.sentence(message) }
    }
}
