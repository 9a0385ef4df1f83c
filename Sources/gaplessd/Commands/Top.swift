import ArgumentParser
import Glibc
import Platform
import RedisQueue

/// `gaplessd top`: the figures of the status page in a terminal.
struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Shows the figures of the status page in a terminal, until q or Ctrl-C.",
        discussion: """
            On a terminal, the figures are refreshed in place every second, and fit the screen: each list with the last minute \
            as a chart, its age and the time to drain it, its dead letters by reason and its pauses; the workers, silent ones \
            first; and the apps, those with problems first, then the busiest, with state, reason of a hold, bottleneck and \
            latencies. Latencies need metrics_listen. Colors mark problems, unless the environment has NO_COLOR. Elsewhere, \
            for example in a pipe, one reading of 'gaplessd status' is printed. Reads only Redis, and continues after an outage.

            --json prints one reading as 'gaplessd status --json' does.

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond at the start, 78 a fault in the settings, or Redis \
            refused access.
            """)

    @OptionGroup var file: SettingsArgument
    @Flag(help: "Print one reading as JSON.") var json = false

    func run() throws {
        let settings = try file.loadSettings()
        if !json, StandardStreams.isTerminal(STDOUT_FILENO) { return try StatusWatch(settings, isTop: true).run() }
        try Status.printOnce(settings, json: json)
    }
}

/// The screen of `top`: the figures of the status page as text.
struct TopScreen {
    /// Seconds of the small charts.
    private static let width = 60
    private static let bars = Array("▁▂▃▄▅▆▇█")

    /// One list over the last readings.
    private struct Past {
        var flow = ListFlow()
        var sent: [Double] = []
        var backlog: [Double] = []
        var lastSent: (count: Double, at: Instant)?
    }

    private var pasts: [String: Past] = [:]

    func question(of list: String) -> TailProbe.Question { pasts[list]?.flow.question ?? TailProbe.Question() }

    /// - Parameter answers: in the order of the lists; `nil` where Redis refused.
    mutating func add(_ reading: StatusReading, _ answers: [TailProbe.Answer?]) {
        for (list, answer) in zip(reading.lists, answers) {
            var past = pasts[list.name] ?? Past()
            past.flow.looked(list.status, answer, at: reading.taken)
            let sent = Double(list.status.counters[.sent, default: 0])
            if let last = past.lastSent, reading.taken > last.at {
                past.sent.append(max(0, sent - last.count) / ((reading.taken - last.at) / .seconds(1)))
            }
            past.lastSent = (sent, reading.taken)
            past.backlog.append(Double(list.status.backlog))
            past.sent = past.sent.suffix(Self.width)
            past.backlog = past.backlog.suffix(Self.width)
            pasts[list.name] = past
        }
    }

    // MARK: The screen

    /// Lines of a list with its charts.
    private static let linesOfList = 7
    /// Lines for the workers and apps that every screen has.
    private static let leastRest = 10

    /// Returns at most `size.rows` lines: the lists, the workers and the apps of all workers. What has no room is counted.
    func lines(_ reading: StatusReading, _ size: TerminalSize) -> [TopLine] {
        let lists = reading.lists
        let pauses = lists.reduce(0) { $0 + min(3, $1.status.pauses.count) }
        let isShort = lists.count * Self.linesOfList + pauses + Self.leastRest > size.rows
        var lines: [TopLine] = []
        let shown = isShort ? lists.prefix(max(1, size.rows / 3)) : lists[...]
        for list in shown { lines += isShort ? [short(list)] : self.lines(list) + [TopLine()] }
        if shown.count < lists.count { lines.append(TopLine("and \((lists.count - shown.count).counted("more list"))", .faint)) }
        if isShort { lines.append(TopLine()) }
        lines += workers(reading, most: max(2, (size.rows - lines.count) / 4))
        lines += apps(reading, size, most: size.rows - lines.count)
        return Array(lines.prefix(size.rows))
    }

    private func figures(_ list: StatusDocument.List) -> (rate: String, age: String, drain: String) {
        let past = pasts[list.name] ?? Past()
        return (
            past.sent.last.map(\.rate) ?? "–", past.flow.age.map { ($0 / .seconds(1)).duration } ?? "unknown",
            past.flow.drain(of: list.status.backlog).map(\.duration) ?? "unknown"
        )
    }

    /// The list in one line.
    private func short(_ list: StatusDocument.List) -> TopLine {
        let (rate, age, drain) = figures(list)
        let status = list.status
        var line = TopLine(list.name.printable, .title)
        line.add(
            "  \(rate)/s sent, backlog \(status.backlog.grouped), age \(age), drains in \(drain), "
                + "\(status.inFlight.grouped) in flight")
        line.add(", dead \(status.dead.grouped)", status.dead > 0 ? .bad : .plain)
        if !status.pauses.isEmpty { line.add(", paused", .warning) }
        return line
    }

    private func lines(_ list: StatusDocument.List) -> [TopLine] {
        let status = list.status
        let past = pasts[list.name] ?? Past()
        let (rate, age, drain) = figures(list)
        var lines = [TopLine("list \(list.name.printable)", .title)]
        lines += status.pauses.prefix(3).map { TopLine("  \(PauseNote($0).scopedSentence.printable)", .warning) }
        lines += status.campaigns.map { TopLine("  campaign \(CampaignReport($0, list: list.name, status.pauses).line)") }
        func row(_ name: String, _ value: String, _ rest: String) -> TopLine {
            TopLine("  \(name.padded(to: 10))\(value.padded(to: 12))\(rest)")
        }
        lines.append(row("sent", rate + "/s", Self.chart(past.sent)))
        lines.append(row("backlog", status.backlog.grouped, Self.chart(past.backlog)))
        lines.append(row("age", age, "drains in \(drain)"))
        let counts = [
            ("in flight", status.inFlight), ("delayed", status.delayed), ("recovered", status.recovered),
            ("feedback", status.feedback), ("cancelled", status.cancelled),
        ]
        lines.append(TopLine("  " + counts.map { "\($0) \($1.grouped)" }.joined(separator: "   ")))
        let reasons = list.reasons.prefix(4).map {
            "\($0.count.grouped) \($0.reason.isEmpty ? "no reason" : $0.reason.printable)"
        }
        lines.append(
            TopLine(
                "  dead \(status.dead.grouped)" + (reasons.isEmpty ? "" : ": " + reasons.joined(separator: ", ")),
                status.dead > 0 ? .bad : .plain))
        return lines
    }

    private func workers(_ reading: StatusReading, most: Int) -> [TopLine] {
        var lines: [TopLine] = []
        let all = reading.lists.flatMap { list in list.status.workers.map { (worker: $0, rate: list.rates[$0.name]) } }
        for (worker, rate) in all.filter({ $0.worker.silence != nil }) + all.filter({ $0.worker.silence == nil }) {
            let detail = { (name: String) in (worker.details[name] ?? "unknown").printable }
            let speed = rate.map { ", \($0.sent.rate)/s sent" } ?? ""
            let head = "\(detail("host")), pid \(detail("pid")), \(worker.inFlight.grouped) in flight"
            if let silence = worker.silence {
                lines.append(TopLine("\(head), silent for \((silence / .seconds(1)).span)", .bad))
            } else {
                lines.append(TopLine(head + speed))
            }
        }
        if lines.isEmpty { return [TopLine("no worker", .warning)] }
        guard lines.count > most else { return lines }
        let hidden = lines.count - most + 1
        return lines.prefix(most - 1) + [TopLine("and \(hidden.counted("more worker"))", .faint)]
    }

    /// The apps of all workers in one table, whose columns are as wide as their contents.
    private func apps(_ reading: StatusReading, _ size: TerminalSize, most: Int) -> [TopLine] {
        let workers = reading.lists.flatMap(\.status.workers).filter { $0.silence == nil }
        let all = workers.flatMap { worker in
            ReportedApp.all(of: worker).map { (app: $0, host: worker.details["host"] ?? "unknown") }
        }
        // With a blank line, the head of the table, and the line of the others.
        guard !all.isEmpty, most >= 4 else { return [] }
        let total = workers.reduce(0) { $0 + ReportedApp.total(of: $1) }
        let overview = AppOverview(all.map(\.app.rank), most: total > most - 2 ? most - 3 : most - 2)
        let hasHosts = workers.count > 1
        let head = ["app"] + (hasHosts ? ["worker"] : []) + ["state", "bottleneck", "sessions", "streams", "p50", "p99"]
        let rows = overview.shown.map { index -> [String] in
            let (app, host) = all[index]
            let figures = [
                app.bottleneck.replacing("_", with: " "), app.sessions.grouped,
                "\(app.streams.grouped) of \(app.capacity.grouped)", app.median?.duration ?? "–", app.slowest?.duration ?? "–",
            ]
            // The reason of a hold says more than the figures of an app that does not send.
            return ([app.label] + (hasHosts ? [host] : []) + [app.state] + (app.hold.map { [$0.reason] } ?? figures))
                .map(\.printable)
        }
        let fixed = hasHosts ? 3 : 2
        let widths = head.indices.map { column in
            let cells = rows.filter { $0.count == head.count || column < fixed }.map { $0[column].count }
            // A long name leaves room for the state.
            return min(max(head[column].count, cells.max() ?? 0), column == 0 ? max(12, size.columns / 3) : .max) + 2
        }
        var lines = [TopLine(), TopLine(TopLine.row(head, widths), .faint)]
        for (row, index) in zip(rows, overview.shown) {
            let concern = all[index].app.rank.concern
            lines.append(
                TopLine(
                    TopLine.row(row, widths),
                    concern >= .noSession ? .bad : concern == .paused ? .warning : concern == .limited ? .warning : .plain))
        }
        if total > rows.count {
            let concerns = all.map(\.app.rank.concern)
            let worse = concerns.count { $0 >= .noSession } - overview.shown.count { all[$0].app.rank.concern >= .noSession }
            lines.append(
                TopLine(
                    "and \((total - rows.count).grouped) more" + (worse > 0 ? ", \(worse.grouped) of them with a problem" : ""),
                    .faint))
        }
        return lines
    }

    /// One character per value, the highest of them full.
    static func chart(_ values: [Double]) -> String {
        let most = values.max() ?? 0
        if most <= 0 { return String(repeating: bars[0], count: values.count) }
        return String(values.map { bars[min(bars.count - 1, Int($0 / most * Double(bars.count - 1) + 0.5))] })
    }
}

/// A line of the screen.
struct TopLine: Equatable {
    enum Style: Equatable {
        case plain, title, faint, warning, bad

        /// Parameters of the control sequence SGR (ECMA-48).
        fileprivate var code: String? {
            switch self {
            case .plain: nil
            case .title: "1"
            case .faint: "2"
            case .warning: "33"
            case .bad: "31"
            }
        }
    }

    private var parts: [(text: String, style: Style)] = []

    init(_ text: String = "", _ style: Style = .plain) { parts = [(text, style)] }

    static func == (left: TopLine, right: TopLine) -> Bool {
        left.text == right.text && left.parts.map(\.style) == right.parts.map(\.style)
    }

    mutating func add(_ text: String, _ style: Style = .plain) { parts.append((text, style)) }

    var text: String { parts.map(\.text).joined() }

    /// Returns the line as the terminal receives it, cut at `columns`.
    func rendered(columns: Int, isColored: Bool) -> String {
        var (left, line) = (columns, "")
        let isCut = text.count > columns
        for part in parts where left > 0 {
            var text = String(part.text.prefix(left))
            if isCut, text.count == left { text = text.dropLast() + "…" }
            left -= text.count
            if isColored, let code = part.style.code { text = "\u{1B}[\(code)m\(text)\u{1B}[0m" }
            line += text
        }
        return line
    }

    /// The cells in columns; a longer one is cut, except in the last column.
    static func row(_ cells: [String], _ widths: [Int]) -> String {
        cells.indices.map { index in
            let (cell, width) = (cells[index], widths[index])
            if index == cells.count - 1 { return cell }
            return cell.count < width ? cell.padded(to: width) : cell.prefix(width - 2) + "… "
        }.joined()
    }
}

/// The size of a terminal in characters.
struct TerminalSize: Equatable {
    var rows = 24
    var columns = 80

    /// The size of the terminal at a descriptor; 24 lines of 80 characters if it is unknown.
    init(of descriptor: CInt) {
        var size = winsize()
        if unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0, size.ws_col > 0 {
            (rows, columns) = (Int(size.ws_row), Int(size.ws_col))
        }
    }

    init(rows: Int, columns: Int) { (self.rows, self.columns) = (rows, columns) }
}

/// Keys of a terminal, each at once and without an echo, until the value ends.
struct TerminalKeys: ~Copyable {
    let descriptor: CInt
    private let before: termios

    /// Returns `nil` if the descriptor is no terminal.
    init?(_ descriptor: CInt) {
        var settings = termios()
        guard unsafe tcgetattr(descriptor, &settings) == 0 else { return nil }
        (self.descriptor, before) = (descriptor, settings)
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
        unsafe tcsetattr(descriptor, TCSANOW, &settings)
    }

    deinit {
        var settings = before
        unsafe tcsetattr(descriptor, TCSANOW, &settings)
    }

    /// Reads the keys that were pressed. Call it when the descriptor is readable: returns an empty text at its end.
    func read() -> String {
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = unsafe Glibc.read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }
}

/// `status --watch` and `top`: shows a reading every second, until a signal or until standard output is closed.
struct StatusWatch: ~Copyable {
    private let settings: Settings
    private let json: Bool
    /// With `top` only.
    private var screen: TopScreen?
    private var signals: SignalInbox
    /// With `top` only: `q` quits.
    private var keys: TerminalKeys?
    private let redraws: Bool
    private let isColored: Bool
    private var last: StatusReading?

    init(_ settings: Settings, json: Bool = false, isTop: Bool = false) throws(ThreadError) {
        signals = try SignalInbox()
        self.settings = settings
        self.json = json
        screen = isTop ? TopScreen() : nil
        keys = isTop ? TerminalKeys(STDIN_FILENO) : nil
        redraws = !json && StandardStreams.isTerminal(STDOUT_FILENO)
        // no-color.org
        isColored = redraws && (unsafe getenv("NO_COLOR").map { unsafe $0.pointee == 0 } ?? true)
    }

    /// Waits for a Redis that is lost during the watch. A Redis that does not respond at the start ends the call.
    consuming func run() throws {
        while true {
            do {
                var client = try RedisAccess.open(settings)
                try watch(&client)
                return
            } catch {
                let fault = (error as? ProbeError) ?? (error as? RedisError).map { ProbeError($0, of: settings) }
                guard let fault else { throw error }
                if last == nil { throw fault.told("redis") }
                StandardStreams.print(["redis: \(fault)"], to: STDERR_FILENO)
                if isStopped(before: .now + .seconds(1)) { return }
            }
        }
    }

    private mutating func watch(_ client: inout RedisClient) throws {
        while true {
            let reading = try StatusReading(&client, settings.lists, after: last)
            if screen != nil {
                let tails = try tails(&client)
                screen?.add(reading, tails)
            }
            guard show(reading) else { return }
            last = reading
            if isStopped(before: reading.taken + .seconds(1)) { return }
        }
    }

    /// Looks at the tails of the lists; `nil` where the user has no right to it.
    private func tails(_ client: inout RedisClient) throws(RedisError) -> [TailProbe.Answer?] {
        var answers: [TailProbe.Answer?] = []
        for list in settings.lists {
            do throws(RedisError) {
                answers.append(try TailProbe(Keys(list: list)).ask(screen?.question(of: list) ?? .init(), &client))
            } catch {
                guard error.isFromServer else { throw error }
                answers.append(nil)
            }
        }
        return answers
    }

    /// Returns `false` if standard output is closed.
    private func show(_ reading: StatusReading) -> Bool {
        let report = StatusReport(reading, settings)
        if json { return StandardStreams.print(report.lines(json: true)) }
        let time = LocalTime.zoned(WallClock.now().unixSeconds)
        if let screen { return show(screen, reading, time) }
        let lines = [time] + report.lines(json: false)
        if !redraws { return StandardStreams.print(lines + [""]) }
        return draw(lines.map { $0 + "\u{1B}[K\n" }.joined())
    }

    private func show(_ screen: TopScreen, _ reading: StatusReading, _ time: String) -> Bool {
        var size = TerminalSize(of: STDOUT_FILENO)
        let head = [TopLine("gaplessd \(gaplessdVersion)   \(time)   q quits", .faint), TopLine()]
        size.rows = max(1, size.rows - head.count)
        let lines = (head + screen.lines(reading, size)).map { $0.rendered(columns: size.columns, isColored: isColored) }
        // Without a line break after the last line, which would move the first one out of the screen.
        return draw(lines.joined(separator: "\u{1B}[K\n") + "\u{1B}[K")
    }

    /// Overwrites the previous page and erases only its remains, to avoid flicker.
    private func draw(_ page: String) -> Bool { StandardStreams.write(Array("\u{1B}[H\(page)\u{1B}[J".utf8)) }

    /// Sleeps until `due`. Returns `true` early if a signal or the key `q` ends the watch.
    private mutating func isStopped(before due: Instant) -> Bool {
        var poller = Poller()
        while .now < due {
            poller.reset()
            poller.add(signals.descriptor, for: .read)
            if let descriptor = keys?.descriptor { poller.add(descriptor, for: .read) }
            poller.wait(until: due)
            if keys != nil, !poller.readiness(at: 1).isEmpty {
                let pressed = keys?.read() ?? ""
                if pressed.contains(where: { "qQ".contains($0) }) { return true }
                // The terminal is gone.
                if pressed.isEmpty { keys = nil }
            }
            if let signal = signals.next(), signal != .report { return true }
        }
        return false
    }
}
