import CLinux
import Glibc
import Platform

/// Writes lines to two descriptors on a thread of its own, so that logging never waits.
///
/// Each stream has a bounded buffer. Lines that find it full are dropped and counted, and the count is logged once the stream
/// works again. Information waits up to 10 ms so that one write takes many lines; a warning or an error is written at once, after
/// the information before it. If both descriptors lead to the same file, as under systemd, a line that was written in part is
/// completed before the lines of the other stream.
final class LogWriter: Sendable {
    /// Bytes at which a stream takes no more lines. Its writer holds at most this and one line in addition.
    static let mostBytes = 4 << 20
    /// The time that information waits for more: at most 100 wake-ups a second for any number of lines.
    static let longestDelay = Duration.milliseconds(10)
    /// Bytes that are written without this wait: they are still in the processor's cache, and the cost of the call is negligible.
    static let plenty = 256 << 10
    /// The time that `close` waits for a stream that takes no bytes.
    static let closingTimeout = Duration.seconds(1)

    /// The lines of one stream that the writer's thread has not taken yet.
    private struct Stream {
        var lines: LogLines
        var dropped = 0
        /// The part of `dropped` that the log has reported.
        var reported = 0

        /// Appends a line. Returns whether to wake the writer's thread.
        @inline(__always)
        mutating func add(_ level: LogLevel, _ body: (inout LogLines) -> Void) -> Bool {
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

        /// Appends a batch of `Sent:` lines. Returns whether to wake the writer's thread.
        mutating func add(sent jobs: [[UInt8]]) -> Bool {
            let before = lines.bytes.count
            lines.refresh()
            for job in jobs {
                if lines.bytes.count < LogWriter.mostBytes { lines.sent(job) } else { dropped += 1 }
            }
            return isNews(before)
        }

        /// Whether the buffer was empty before, or has reached `plenty` now.
        private func isNews(_ before: Int) -> Bool {
            let count = lines.bytes.count
            return (before == 0 && count > 0) || (before < LogWriter.plenty && count >= LogWriter.plenty)
        }
    }

    private struct State {
        var output: Stream
        var errors: Stream
        var failures = FailureLimit()
        var isClosed = false

        /// Writes the numbers of the failures that had no line, if their second is over. Returns when it will be.
        mutating func countFailures(now: Instant) -> Instant? {
            guard let due = failures.due, due <= now else { return failures.due }
            writeFailures()
            return nil
        }

        mutating func writeFailures() {
            for count in failures.end() { _ = errors.add(count.kind.level) { $0.failures(count) } }
        }

        init(_ format: LogFormat, output: CInt, errors: CInt) {
            self.output = Stream(lines: LogLines(format: format, target: LogTarget(descriptor: output)))
            self.errors = Stream(lines: LogLines(format: format, target: LogTarget(descriptor: errors)))
        }
    }

    private let state: Locked<State>
    private let wakeUp: WakeUp
    private let thread = Locked<JoinOnce?>(nil)
    private let sharesFile: Bool

    init(format: LogFormat, output: CInt, errors: CInt) throws(ThreadError) {
        state = Locked(State(format, output: output, errors: errors))
        wakeUp = try WakeUp(thread: "log")
        sharesFile = LogTarget.isSameFile(output, errors)
        let thread = try JoinOnce(name: "log") { [self] in run(output: output, errors: errors) }
        self.thread.withLock { $0 = thread }
    }

    var droppedLines: Int { state.withLock { $0.output.dropped + $0.errors.dropped } }

    /// Appends a line. Waits at most until the lines of other threads are copied.
    @inline(__always)
    func append(_ level: LogLevel, _ body: (inout LogLines) -> Void) {
        add { level < .warning ? $0.output.add(level, body) : $0.errors.add(level, body) }
    }

    /// Appends a line about a failure, or counts it.
    func append(_ kind: FailureLimit.Kind, _ reason: @autoclosure () -> String, _ body: (inout LogLines) -> Void) {
        add { state in
            let now = Instant.now
            _ = state.countFailures(now: now)
            guard state.failures.admits(kind, now: now) else { return state.failures.count(kind, reason(), now: now) }
            return state.errors.add(kind.level, body)
        }
    }

    /// Appends a `Sent:` line for each job, with one lock and one reading of the clock.
    func append(sent jobs: [[UInt8]]) {
        if jobs.isEmpty { return }
        add(jobs.count) { $0.output.add(sent: jobs) }
    }

    /// Adds lines, which a closed log drops.
    ///
    /// - Parameter body: returns whether to wake the writer's thread.
    @inline(__always)
    private func add(_ lines: Int = 1, _ body: (inout State) -> Bool) {
        let isNews = state.withLock { state in
            if state.isClosed {
                state.errors.dropped += lines
                return false
            }
            return body(&state)
        }
        if isNews { wakeUp.ring() }
    }

    /// Changes the format of the following lines.
    func change(format: LogFormat) {
        state.withLock { state in
            state.output.lines.change(format)
            state.errors.lines.change(format)
        }
    }

    /// Waits for the writer at most once: it may be stuck.
    func close() {
        let isFirst = state.withLock { state in
            if !state.isClosed { state.writeFailures() }
            defer { state.isClosed = true }
            return !state.isClosed
        }
        if !isFirst { return }
        wakeUp.ring()
        // Longer than the writer's own limit: a write(2) may block although poll(2) promised otherwise.
        thread.withLock { $0 }?.join(atMost: Self.closingTimeout * 1.5)
    }

    // MARK: The writer's thread

    private func run(output: CInt, errors: CInt) {
        var output = LogSink(descriptor: output)
        var errors = LogSink(descriptor: errors)
        var poller = Poller()
        var closing: Instant?
        while true {
            let counting = state.withLock { $0.countFailures(now: .now) }
            if canBegin(besides: errors) { pump(&output, \.output) }
            if canBegin(besides: output) { pump(&errors, \.errors) }
            let work = work(output, errors)
            if work.isClosed {
                closing = closing ?? .now + Self.closingTimeout
                let isDone = !work.output && !work.errors && output.isEmpty && errors.isEmpty
                if isDone || .now >= closing ?? .now { return }
            }
            sleep(&poller, output, errors, work, until: closing ?? counting)
        }
    }

    /// Whether a stream may write, given the sink of the other one.
    private func canBegin(besides other: borrowing LogSink) -> Bool { !sharesFile || other.isEmpty }

    /// Writes as many lines of a stream as its descriptor takes now.
    private func pump(_ sink: inout LogSink, _ stream: any WritableKeyPath<State, Stream> & Sendable) {
        if sink.isEmpty { state.withLock { sink.take(&$0[keyPath: stream].lines.bytes) } }
        if sink.isEmpty { return }
        let dropped = sink.write()
        let unreported = state.withLock { state in
            state[keyPath: stream].dropped += dropped
            guard sink.isEmpty, dropped == 0 else { return 0 }
            defer { state[keyPath: stream].reported = state[keyPath: stream].dropped }
            return state[keyPath: stream].dropped - state[keyPath: stream].reported
        }
        if unreported > 0 {
            let lines = "\(unreported.logged("line")) \(unreported == 1 ? "was" : "were")"
            append(.warning) { line in
                line.sentence("The log could not be written: \(lines) dropped.")
                line.event(.logDropped)
            }
        }
    }

    /// The streams that have lines and whose descriptors may take them.
    private typealias Work = (output: Bool, errors: Bool, isClosed: Bool)

    private func work(_ output: borrowing LogSink, _ errors: borrowing LogSink) -> Work {
        let isOutputFree = output.isEmpty && canBegin(besides: errors)
        let areErrorsFree = errors.isEmpty && canBegin(besides: output)
        return state.withLock { state in
            (isOutputFree && !state.output.lines.isEmpty, areErrorsFree && !state.errors.lines.isEmpty, state.isClosed)
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
            wait(&poller, output, errors, until: .now + Self.longestDelay)
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

/// Limits the lines about failed pushes: of each kind, `mostPerSecond` are written in a second, and `mostAtOnce` after a quiet
/// time; the others are counted by reason. It reads no clock.
struct FailureLimit: Sendable {
    enum Kind: Int, CaseIterable, Sendable {
        case retry, final, badJob

        var level: LogLevel { self == .retry ? .warning : .error }
    }

    /// The failures of one kind that had no line.
    struct Count {
        var kind: Kind
        /// Most frequent first.
        var reasons: [(reason: String, count: Int)]

        var total: Int { reasons.reduce(0) { $0 + $1.count } }

        var text: String {
            let all = reasons.map { "\($0.count.grouped) \($0.reason)" }.joined(separator: ", ")
            switch kind {
            case .retry: return "\(total.grouped) more pushes are retried, in one second: \(all)."
            case .final: return "\(total.grouped) more pushes have failed, in one second; each is a dead letter: \(all)."
            case .badJob: return "\(total.grouped) more jobs cannot be pushed, in one second; each is a dead letter: \(all)."
            }
        }
    }

    /// Lines of each kind in a second, on average.
    static let mostPerSecond = 10.0
    /// Lines of each kind at once: those of ten seconds.
    static let mostAtOnce = 100.0
    /// Different reasons of each kind in a second that are counted apart.
    static let mostReasons = 10
    /// Characters of a reason: that of a bad job may repeat a name of the producer.
    private static let mostCharacters = 100

    /// Lines of each kind that may be written now.
    private var allowed = [Double](repeating: mostAtOnce, count: Kind.allCases.count)
    private var refilled: Instant?
    private var counts = [[String: Int]](repeating: [:], count: Kind.allCases.count)
    /// The end of the second that began with the first failure without a line.
    private(set) var due: Instant?

    /// Whether a line is written now.
    mutating func admits(_ kind: Kind, now: Instant) -> Bool {
        let new = refilled.map { max(0, (now - $0) / .seconds(1)) * Self.mostPerSecond } ?? 0
        for index in allowed.indices { allowed[index] = min(Self.mostAtOnce, allowed[index] + new) }
        refilled = now
        guard allowed[kind.rawValue] >= 1 else { return false }
        allowed[kind.rawValue] -= 1
        return true
    }

    /// Counts a failure without a line. Returns whether it is the first of its second.
    mutating func count(_ kind: Kind, _ reason: String, now: Instant) -> Bool {
        let isFirst = due == nil
        if isFirst { due = now + .seconds(1) }
        let known = counts[kind.rawValue]
        let reason = String(reason.prefix(Self.mostCharacters))
        let name = known[reason] != nil || known.count < Self.mostReasons ? reason : "others"
        counts[kind.rawValue][name, default: 0] += 1
        return isFirst
    }

    /// Ends the second. Returns the numbers of the failures that had no line.
    mutating func end() -> [Count] {
        defer { (counts, due) = ([[String: Int]](repeating: [:], count: Kind.allCases.count), nil) }
        return Kind.allCases.compactMap { kind in
            let reasons = counts[kind.rawValue].map { (reason: $0.key, count: $0.value) }
            if reasons.isEmpty { return nil }
            return Count(kind: kind, reasons: reasons.sorted { ($1.count, $0.reason) < ($0.count, $1.reason) })
        }
    }
}

/// One descriptor that receives lines, on the log writer's thread.
///
/// Other programs may share the descriptor, so its flags stay (O_NONBLOCK would be theirs, too). Each write is preceded by
/// poll(2) and is small enough not to block.
struct LogSink: ~Copyable {
    let descriptor: CInt
    private let target: LogTarget
    private var lines: [UInt8] = []
    private var written = 0
    /// Whether the last line was written only in part: the next line must not continue it.
    private var isMidLine = false

    init(descriptor: CInt) {
        self.descriptor = descriptor
        target = LogTarget(descriptor: descriptor)
    }

    /// Whether all lines taken are written or dropped.
    var isEmpty: Bool { lines.isEmpty }

    /// Takes over lines and leaves an empty buffer with its memory in their place.
    mutating func take(_ waiting: inout [UInt8]) {
        swap(&lines, &waiting)
    }

    /// Writes as much as the descriptor takes now. Returns the number of lines dropped because a write failed.
    mutating func write() -> Int {
        if isMidLine, !lines.isEmpty {
            lines.insert(UInt8(ascii: "\n"), at: 0)
            isMidLine = false
        }
        while written < lines.count {
            guard isWritable() else { return 0 }
            let count = writeSome()
            if count > 0 {
                written += count
            } else if errno != EINTR {
                return errno == EAGAIN ? 0 : drop()
            }
        }
        clear()
        return 0
    }

    private mutating func clear() {
        lines.removeAll(keepingCapacity: true)
        written = 0
    }

    /// Drops the rest after an error, such as a full disk or a closed pipe. The next lines are tried again.
    private mutating func drop() -> Int {
        isMidLine = written > 0 && lines[written - 1] != UInt8(ascii: "\n")
        let dropped = lines[written...].count { $0 == UInt8(ascii: "\n") }
        clear()
        return dropped
    }

    private func isWritable() -> Bool {
        if target == .file { return true }
        var one = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return unsafe poll(&one, 1, 0) > 0
    }

    private func writeSome() -> Int {
        unsafe lines.withUnsafeBytes { raw in
            let rest = unsafe UnsafeRawBufferPointer(rebasing: raw[written...])
            switch target {
            case .file: return unsafe Glibc.write(descriptor, rest.baseAddress, min(rest.count, 1 << 20))
            case .socket: return unsafe send(descriptor, rest.baseAddress, rest.count, CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL))
            // A pipe that is ready has room for PIPE_BUF bytes (pipe(7), poll(2)). A terminal takes less at once.
            case .terminal, .other: return unsafe Glibc.write(descriptor, rest.baseAddress, min(rest.count, 4096))
            }
        }
    }
}

/// The kind of file behind a descriptor of the log.
enum LogTarget: Sendable {
    case file, socket, terminal, other

    init(descriptor: CInt) {
        var status = stat()
        // A closed descriptor is treated as a file, so that the write fails; poll(2) would not report it.
        guard unsafe fstat(descriptor, &status) == 0 else {
            self = .file
            return
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG: self = .file
        case S_IFSOCK: self = .socket
        default: self = isatty(descriptor) == 1 ? .terminal : .other
        }
    }

    /// Whether both descriptors lead to the same file, pipe or socket.
    static func isSameFile(_ first: CInt, _ second: CInt) -> Bool {
        var (one, other) = (stat(), stat())
        guard unsafe fstat(first, &one) == 0, unsafe fstat(second, &other) == 0 else { return false }
        return one.st_dev == other.st_dev && one.st_ino == other.st_ino
    }
}
