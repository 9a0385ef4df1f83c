import ArgumentParser
import Glibc
import Platform
import RedisQueue

/// `gaplessd top`: the figures of the status page in a terminal.
struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Shows the figures of the status page in a terminal, until Ctrl-C.",
        discussion: """
            On a terminal, the figures are refreshed in place every second: each list with the last minute as a chart, its age \
            and the time to drain it, its dead letters by reason and its pauses; each worker with the state, the bottleneck and \
            the latencies of its apps. Latencies need metrics_listen. Elsewhere, for example in a pipe, one reading of \
            'gaplessd status' is printed. Reads only Redis, and continues after an outage.

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond at the start, 78 a fault in the settings, or Redis \
            refused access.
            """)

    @OptionGroup var file: SettingsArgument

    func run() throws {
        let settings = try file.loadSettings()
        if StandardStreams.isTerminal(STDOUT_FILENO) { return try StatusWatch(settings, isTop: true).run() }
        try Status.printOnce(settings, json: false)
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

    func lines(_ reading: StatusReading) -> [String] { reading.lists.flatMap { lines($0) + [""] } }

    private func lines(_ list: StatusDocument.List) -> [String] {
        let status = list.status
        let past = pasts[list.name] ?? Past()
        var lines = ["list \(list.name.printable)"]
        lines += status.pauses.map { "  \(PauseNote($0).scopedSentence.printable)" }
        lines += status.campaigns.map { "  campaign \(CampaignReport($0, list: list.name, status.pauses).line)" }
        let rate = past.sent.last.map { Self.rate($0) } ?? "–"
        let age = past.flow.age.map { Self.seconds($0 / .seconds(1)) } ?? "unknown"
        let drain = past.flow.drain(of: status.backlog).map { Self.seconds($0) } ?? "unknown"
        lines.append("  \(Self.padded("sent/s", 10))\(Self.padded(rate, 12))\(Self.chart(past.sent))")
        lines.append("  \(Self.padded("backlog", 10))\(Self.padded(status.backlog.grouped, 12))\(Self.chart(past.backlog))")
        lines.append("  \(Self.padded("age", 10))\(Self.padded(age, 12))drains in \(drain)")
        let counts = [
            ("in flight", status.inFlight), ("delayed", status.delayed), ("recovered", status.recovered),
            ("feedback", status.feedback), ("cancelled", status.cancelled),
        ]
        lines.append("  " + counts.map { "\($0) \($1.grouped)" }.joined(separator: "   "))
        let reasons = list.reasons.prefix(4).map {
            "\($0.count.grouped) \($0.reason.isEmpty ? "no reason" : $0.reason.printable)"
        }
        lines.append("  dead \(status.dead.grouped)" + (reasons.isEmpty ? "" : ": " + reasons.joined(separator: ", ")))
        for worker in status.workers { lines += [""] + self.lines(worker, list.rates[worker.name]) }
        return lines
    }

    private func lines(_ worker: QueueStatus.Worker, _ rate: StatusDocument.List.Rate?) -> [String] {
        let detail = { (name: String) in (worker.details[name] ?? "unknown").printable }
        let speed = rate.map { ", \(Self.rate($0.sent)) sent/s" } ?? ""
        let head = "  \(detail("host")), pid \(detail("pid")), \(worker.inFlight.grouped) in flight\(speed)"
        let apps = ReportedApp.all(of: worker)
        if apps.isEmpty { return [head] }
        let columns = [("app", 20), ("state", 22), ("bottleneck", 12), ("sessions", 9), ("streams", 14), ("p50", 9), ("p99", 9)]
        let rows = apps.map { app in
            [
                app.label.printable, app.state.printable, app.bottleneck.replacing("_", with: " ").printable, "\(app.sessions)",
                "\(app.streams) of \(app.capacity)", app.median.map { Self.seconds($0) } ?? "–",
                app.slowest.map { Self.seconds($0) } ?? "–",
            ]
        }
        return [head]
            + ([columns.map(\.0)] + rows).map { row in
                "    " + zip(row, columns).map { Self.padded($0, $1.1) }.joined()
            }
    }

    /// One character per value, the highest of them full.
    static func chart(_ values: [Double]) -> String {
        let most = values.max() ?? 0
        if most <= 0 { return String(repeating: bars[0], count: values.count) }
        return String(values.map { bars[min(bars.count - 1, Int($0 / most * Double(bars.count - 1) + 0.5))] })
    }

    /// The text in a column, cut if it is longer.
    private static func padded(_ text: String, _ width: Int) -> String {
        text.count < width ? text + String(repeating: " ", count: width - text.count) : text.prefix(width - 2) + "… "
    }
}

/// `status --watch` and `top`: shows a reading every second, until a signal or until standard output is closed.
struct StatusWatch: ~Copyable {
    private let settings: Settings
    private let json: Bool
    /// With `top` only.
    private var screen: TopScreen?
    private var signals: SignalInbox
    private let redraws: Bool
    private var last: StatusReading?

    init(_ settings: Settings, json: Bool = false, isTop: Bool = false) throws(ThreadError) {
        signals = try SignalInbox()
        self.settings = settings
        self.json = json
        screen = isTop ? TopScreen() : nil
        redraws = !json && StandardStreams.isTerminal(STDOUT_FILENO)
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
        let time = LocalTime.text(of: WallClock.now().unixSeconds)
        let lines =
            screen.map { ["gaplessd \(gaplessdVersion)   \(time)", ""] + $0.lines(reading) } ?? [time] + report.lines(json: false)
        if !redraws { return StandardStreams.print(lines + [""]) }
        // Overwrites the previous page and erases only its remains, to avoid flicker.
        let page = "\u{1B}[H" + lines.map { $0 + "\u{1B}[K\n" }.joined() + "\u{1B}[J"
        return StandardStreams.write(Array(page.utf8))
    }

    private mutating func isStopped(before due: Instant) -> Bool { signals.stops(before: due) }
}

extension SignalInbox {
    /// Sleeps until `due`. Returns `true` early if a signal ends the watch.
    mutating func stops(before due: Instant) -> Bool {
        var poller = Poller()
        while .now < due {
            poller.reset()
            poller.add(descriptor, for: .read)
            poller.wait(until: due)
            if let signal = next(), signal != .report { return true }
        }
        return false
    }
}

// MARK: Figures as text

extension TopScreen {
    /// A rate, without decimals from 10 on.
    static func rate(_ value: Double) -> String {
        value >= 10 || value == 0 ? (Int64(exactly: value.rounded()) ?? .max).grouped : "\((value * 10).rounded() / 10)"
    }

    /// `35 ms`, `1.2 s`, and from a minute on as `span`.
    static func seconds(_ value: Double) -> String {
        if value >= 60 { return span(value) }
        if value >= 10 || value == 0 { return "\(Int(value.rounded())) s" }
        if value >= 1 { return "\((value * 10).rounded() / 10) s" }
        return value >= 0.01 ? "\(Int((value * 1000).rounded())) ms" : "\((value * 10_000).rounded() / 10) ms"
    }

    /// `42 s`, `7 min`, `3 h 20 min`, `12 d 4 h`.
    static func span(_ seconds: Double) -> String {
        let seconds = Int64(exactly: max(0, seconds).rounded(.down)) ?? .max
        if seconds < 60 { return "\(seconds) s" }
        if seconds < 3600 { return "\(seconds / 60) min" }
        if seconds < 86_400 { return "\(seconds / 3600) h \(seconds / 60 % 60) min" }
        return "\(seconds / 86_400) d \(seconds / 3600 % 24) h"
    }
}

extension BinaryInteger {
    /// The digits in groups of three, with a narrow space between them.
    fileprivate var grouped: String {
        let digits = String(magnitude)
        var text = self < 0 ? "-" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text += "\u{202F}" }
            text.append(digit)
        }
        return text
    }
}
