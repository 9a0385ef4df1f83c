import PushPool
import RedisQueue
import SystemTime

/// The HTML page at `/`: the same figures as `/metrics`, for people.
struct StatusPage {
    private let reading: RedisReading
    private let notice: ProcessBoard.Notice?
    private let system: SystemFacts
    private let droppedLines: Int
    private let faults: [String]
    private let pauses: [String]
    private let wallClock: WallClock

    init(
        _ reading: RedisReading, _ notice: ProcessBoard.Notice?, _ system: SystemFacts, droppedLines: Int,
        now: Instant, wallClock: WallClock
    ) {
        self.reading = reading
        self.notice = notice
        self.system = system
        self.droppedLines = droppedLines
        self.wallClock = wallClock
        faults = Readiness.faults(notice, now: now)
        pauses = Readiness.pauses(notice)
    }

    var html: String {
        let nonce = String(UInt64.random(in: .min ... .max), radix: 36)
        return """
            <!doctype html><html lang="en"><head><meta charset="utf-8"><title>gaplessd</title>
            <meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-\(nonce)'; \
            script-src 'nonce-\(nonce)'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'">
            <noscript><meta http-equiv="refresh" content="5"></noscript><link rel="icon" href="data:,">
            <style nonce="\(nonce)">\(Self.style)</style></head><body>\(content)
            <script nonce="\(nonce)">\(Self.script)</script></body></html>

            """
    }

    private var content: String {
        """
        <div id="page"><header><h1>gaplessd <small>\(gaplessdVersion.forHTML)</small></h1>\(pill)
        <span class="when">\(LocalTime.text(of: wallClock.unixSeconds))</span></header>\
        \(problems)\(queues)\(apps)\(workers)\(footer)</div>
        """
    }

    private var pill: String {
        faults.isEmpty
            ? #"<span class="pill good">ready</span>"# + (pauses.isEmpty ? "" : #" <span class="pill bad">paused</span>"#)
            : #"<span class="pill bad">not ready</span>"#
    }

    private var problems: String {
        let all = faults + pauses + (reading.fault.map { ["the figures of the lists are unknown: \($0)"] } ?? [])
        return all.isEmpty ? "" : "<ul class=\"problems\">\(all.map { "<li>\($0.forHTML)</li>" }.joined())</ul>"
    }

    // MARK: Lists

    private var queues: String { reading.lists.map(queue).joined() }

    private func queue(_ list: RedisReading.List) -> String {
        let status = list.status
        let sent = status.counters[.sent, default: 0]
        let tiles = [
            tile("backlog", status.backlog, "waiting in the list"), tile("in flight", status.inFlight, "claimed, not settled"),
            tile("delayed", status.delayed, "not due yet"),
            tile("dead", status.dead, "letters", kind: status.dead > 0 ? "bad" : ""),
            tile("feedback", status.feedback, "entries"),
        ]
        let counters = Counter.allCases.map {
            "<div><dt>\($0.rawValue.replacing("_", with: " "))</dt><dd>\(status.counters[$0, default: 0].grouped)</dd></div>"
        }
        return """
            <section><h2>\(list.name.forHTML)</h2><div class="tiles"><div class="tile rate" data-queue="\(list.name.forHTML)" \
            data-sent="\(sent)" data-at="\(wallClock.seconds)"><b>\(list.sentPerSecond.map(Self.rate) ?? "–")</b>\
            <span>sent per second</span>\
            <svg viewBox="0 0 120 28" preserveAspectRatio="none" aria-hidden="true"><polyline points=""/></svg></div>\
            \(tiles.joined())</div><dl>\(counters.joined())</dl></section>
            """
    }

    private func tile(_ name: String, _ value: Int, _ words: String, kind: String = "") -> String {
        "<div class=\"tile \(kind)\"><b>\(value.grouped)</b><span>\(name)</span><i>\(words)</i></div>"
    }

    // MARK: Apps and workers

    private var apps: String {
        guard let apps = notice?.snapshot.apps else { return "" }
        let rows = apps.map { app in
            let state =
                app.hold.map { "<td class=\"bad\">held: \($0.kind.replacing("_", with: " ").forHTML)</td>" }
                ?? (app.capacity > 0 ? "<td class=\"good\">open</td>" : "<td class=\"bad\">no session</td>")
            let share = app.capacity > 0 ? Double(app.streams) / Double(app.capacity) * 100 : 0
            return """
                <tr><td>\(app.label.forHTML)</td>\(state)<td class="n">\(app.sessions)</td>\
                <td class="n">\(app.streams.grouped) of \
                \(app.capacity.grouped) <meter min="0" max="100" value="\(Int(share.rounded()))"></meter></td>\
                <td class="n">\(app.figures.roundTrip.map { Self.milliseconds($0) } ?? "")</td>\
                <td>\(app.bottleneck.rawValue.replacing("_", with: " ").forHTML)</td>\(credential(app))</tr>
                """
        }
        return table("APNs", ["app", "state", "sessions", "streams in use", "round trip", "bottleneck", "credential"], rows)
    }

    private func credential(_ app: ProcessSnapshot.App) -> String {
        if let end = app.certificateExpires {
            let days = (end - wallClock.unixSeconds) / 86_400
            return "<td class=\"\(days < 30 ? "bad" : "")\">certificate, \(days.counted("day")) left</td>"
        }
        return "<td>\(app.tokenAge.map { "token, \(Self.span($0 / .seconds(1))) old" } ?? "token, not created yet")</td>"
    }

    private var workers: String {
        let rows = reading.lists.flatMap { list in
            list.status.workers.map { worker in
                let detail = { (name: String) in (worker.details[name] ?? "unknown").forHTML }
                let started = worker.details["started"].flatMap { Int64($0) }.map(LocalTime.text) ?? "unknown"
                return """
                    <tr><td>\(detail("host"))</td><td class="n">\(detail("pid"))</td>\
                    <td>\(list.name.forHTML)</td><td>\(detail("version"))</td>\
                    <td>\(started.forHTML)</td><td class="n">\(worker.inFlight.grouped)</td>\
                    <td class="n">\(worker.count("sent").grouped)</td></tr>
                    """
            }
        }
        return table("Workers", ["host", "pid", "list", "version", "since", "in flight", "sent"], rows)
    }

    private func table(_ title: String, _ columns: [String], _ rows: [String]) -> String {
        if rows.isEmpty { return "" }
        let head = columns.map { "<th>\($0)</th>" }.joined()
        return "<section><h2>\(title)</h2><div class=\"wide\"><table><tr>\(head)</tr>\(rows.joined())</table></div></section>"
    }

    private var footer: String {
        let megabytes = (Double(system.residentBytes) / 1e5).rounded() / 10
        let dropped = droppedLines > 0 ? " · \(droppedLines.grouped) log line\(droppedLines == 1 ? "" : "s") dropped" : ""
        return """
            <footer>This process: up \(Self.span(wallClock.seconds - system.started)) · \(megabytes) MB resident · \
            \(notice?.snapshot.inFlight.grouped ?? "0") in flight\(dropped) · <a href="/metrics">metrics</a> · \
            <a href="/readyz">readyz</a> · <a href="/healthz">healthz</a></footer>
            """
    }

    // MARK: Figures

    private static func milliseconds(_ duration: Duration) -> String {
        "\((duration / .milliseconds(1) * 10).rounded() / 10) ms"
    }

    /// Without decimals from 10 on.
    private static func rate(_ value: Double) -> String {
        value >= 10 || value == 0 ? (Int64(exactly: value.rounded()) ?? .max).grouped : "\((value * 10).rounded() / 10)"
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

extension String {
    /// The text on one line, unable to begin a tag or to leave an attribute.
    var forHTML: String {
        var text = ""
        for scalar in printable.unicodeScalars {
            switch scalar {
            case "&": text += "&amp;"
            case "<": text += "&lt;"
            case ">": text += "&gt;"
            case "\"": text += "&quot;"
            case "'": text += "&#39;"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}
