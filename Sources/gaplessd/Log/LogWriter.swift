import Clocks
import Glibc
import Threads

/// Carries lines to two descriptors on a thread of its own, so that whoever logs never waits.
///
/// Each stream has a buffer with a bound; what finds it full is dropped, counted, and told once the stream works again.
/// Information waits up to 10 ms for company, or until there is plenty of it; a warning or an error goes at once, after the
/// information before it.
final class LogWriter: Sendable {
    /// Where a stream takes no more lines. What its writer holds besides is no more than this and one line.
    static let mostBytes = 4 << 20
    /// How long information waits for more of it: at most 100 wake-ups a second for any number of lines.
    static let patience = Duration.milliseconds(10)
    /// So much goes at once: what is written while it is still in the processor's cache costs less, and each write is large enough
    /// for the call itself to cost nothing.
    static let plenty = 256 << 10
    /// How long `close` waits for a stream that takes nothing.
    static let closingTimeout = Duration.seconds(2)

    /// One stream's lines that the writer's thread has not taken yet.
    private struct Stream {
        var lines: LogLines
        var dropped = 0
        /// How many of `dropped` the log has told of.
        var told = 0

        /// True if the writer's thread must be told.
        @inline(__always)
        mutating func add(_ level: Log.Level, _ body: (inout LogLines) -> Void) -> Bool {
            let before = lines.bytes.count
            guard before < LogWriter.mostBytes else {
                dropped += 1
                return false
            }
            lines.begin(level)
            body(&lines)
            lines.end()
            return isNews(before)
        }

        /// As above, for a batch.
        mutating func add(sent jobs: [[UInt8]]) -> Bool {
            let before = lines.bytes.count
            lines.refresh()
            for job in jobs {
                if lines.bytes.count < LogWriter.mostBytes { lines.sent(job) } else { dropped += 1 }
            }
            return isNews(before)
        }

        /// Whether there was nothing before, or is plenty only now.
        private func isNews(_ before: Int) -> Bool {
            let count = lines.bytes.count
            return (before == 0 && count > 0) || (before < LogWriter.plenty && count >= LogWriter.plenty)
        }
    }

    private struct State {
        var output: Stream
        var errors: Stream
        var isClosed = false

        init(_ format: Log.Format) {
            output = Stream(lines: LogLines(format: format))
            errors = output
        }
    }

    /// Only the one caller that closed the writer under its lock touches the thread.
    private final class Handle: @unchecked Sendable {
        var thread: OwnedThread?
    }

    private let state: Locked<State>
    private let wakeUp = WakeUp()
    private let finished = WakeUp()
    private let handle = Handle()

    init(format: Log.Format, output: CInt, errors: CInt) throws(ThreadError) {
        state = Locked(State(format))
        handle.thread = try OwnedThread(name: "log") { [self] in run(output: output, errors: errors) }
    }

    var droppedLines: Int { state.withLock { $0.output.dropped + $0.errors.dropped } }

    /// Adds a line. Never blocks longer than others' lines are copied.
    @inline(__always)
    func append(_ level: Log.Level, _ body: (inout LogLines) -> Void) {
        let isNews = state.withLock { state in
            if state.isClosed {
                state.errors.dropped += 1
                return false
            }
            return level < .warning ? state.output.add(level, body) : state.errors.add(level, body)
        }
        if isNews { wakeUp.ring() }
    }

    /// Adds a `Sent:` line for each, with one lock and one look at the clock.
    func append(sent jobs: [[UInt8]]) {
        if jobs.isEmpty { return }
        let isNews = state.withLock { state in
            if state.isClosed {
                state.errors.dropped += jobs.count
                return false
            }
            return state.output.add(sent: jobs)
        }
        if isNews { wakeUp.ring() }
    }

    /// Of the lines from now on.
    func change(format: Log.Format) {
        state.withLock { state in
            state.output.lines.change(format)
            state.errors.lines.change(format)
        }
    }

    func close() {
        let wasOpen = state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
        guard wasOpen else { return }
        wakeUp.ring()
        var poller = Poller()
        let place = poller.add(finished.descriptor, for: .read)
        // The writer's own limit and some: should it hang in a write(2) that promised not to, the process leaves without it.
        let deadline = Instant.now + Self.closingTimeout * 1.5
        repeat { poller.wait(until: deadline) } while !poller.readiness(at: place).contains(.read) && .now < deadline
        if poller.readiness(at: place).contains(.read), let thread = handle.thread.take() { thread.join() }
    }

    // MARK: The writer's thread

    private func run(output: CInt, errors: CInt) {
        var output = LogSink(descriptor: output)
        var errors = LogSink(descriptor: errors)
        var poller = Poller()
        var closing: Instant?
        while true {
            pump(&output, \.output)
            pump(&errors, \.errors)
            let work = work(output, errors)
            if work.isClosed {
                closing = closing ?? .now + Self.closingTimeout
                let isDone = !work.output && !work.errors && output.isEmpty && errors.isEmpty
                if isDone || .now >= closing ?? .now { break }
            }
            sleep(&poller, output, errors, work, until: closing)
        }
        finished.ring()
    }

    /// Writes what a stream has, as far as it goes without waiting.
    private func pump(_ sink: inout LogSink, _ stream: any WritableKeyPath<State, Stream> & Sendable) {
        if sink.isEmpty { state.withLock { sink.take(&$0[keyPath: stream].lines.bytes) } }
        if sink.isEmpty { return }
        let dropped = sink.write()
        let untold = state.withLock { state in
            state[keyPath: stream].dropped += dropped
            guard sink.isEmpty, dropped == 0 else { return 0 }
            defer { state[keyPath: stream].told = state[keyPath: stream].dropped }
            return state[keyPath: stream].dropped - state[keyPath: stream].told
        }
        if untold > 0 {
            let lines = "\(untold.counted("line")) \(untold == 1 ? "was" : "were")"
            append(.warning) { $0.sentence("The log could not be written: \(lines) dropped.") }
        }
    }

    /// What waits for a stream that could take it.
    private struct Work {
        var output: Bool
        var errors: Bool
        var isClosed: Bool
    }

    private func work(_ output: borrowing LogSink, _ errors: borrowing LogSink) -> Work {
        let isFree = (output: output.isEmpty, errors: errors.isEmpty)
        return state.withLock { state in
            Work(
                output: isFree.output && !state.output.lines.isEmpty, errors: isFree.errors && !state.errors.lines.isEmpty,
                isClosed: state.isClosed)
        }
    }

    private func sleep(
        _ poller: inout Poller, _ output: borrowing LogSink, _ errors: borrowing LogSink, _ work: Work,
        until closing: Instant?
    ) {
        var work = work
        if !work.output && !work.errors {
            wait(&poller, output, errors, until: closing)
            work = self.work(output, errors)
        }
        if work.output && !work.errors && !work.isClosed {
            wait(&poller, output, errors, until: .now + Self.patience)
        }
    }

    private func wait(
        _ poller: inout Poller, _ output: borrowing LogSink, _ errors: borrowing LogSink,
        until deadline: Instant?
    ) {
        poller.reset()
        poller.add(wakeUp.descriptor, for: .read)
        if !output.isEmpty { poller.add(output.descriptor, for: .write) }
        if !errors.isEmpty { poller.add(errors.descriptor, for: .write) }
        poller.wait(until: deadline)
        wakeUp.listen()
    }
}
