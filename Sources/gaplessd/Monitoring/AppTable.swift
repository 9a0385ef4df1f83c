import Platform
import PushPool

/// The part of the page about the apps of this daemon.
struct AppTable {
    let facts: PageFacts

    var html: String {
        guard let apps = facts.notice?.snapshot.apps else { return "" }
        let head = ["app", "state", "bottleneck", "sessions", "streams", "round trip", "p50", "p99", "credential"]
        return """
            <section><h2>Apps <small>of this daemon</small></h2><div class="charts two">\(charts)</div>\
            <div class="wide"><table class="stacked"><thead><tr>\(head.map { "<th>\($0)</th>" }.joined())</tr></thead>\
            <tbody>\(apps.map(row).joined())</tbody></table></div>\(commands(apps))</section>
            """
    }

    private var charts: String {
        let history = facts.history
        let latency = Chart(
            title: "Latency from claim to response", unit: .seconds,
            lines: [.init(name: "p50", color: 0, series: history.median), .init(name: "p99", color: 3, series: history.slowest)])
        return latency.html + responses
    }

    /// Acceptances would hide the other responses: they are the chart of the list.
    private var responses: String {
        let history = facts.history
        var others = history.responses.filter { $0.kind != .accepted }
        others.sort { $0.series.reduce(0) { $1 > 0 ? $0 + $1 : $0 } > $1.series.reduce(0) { $1 > 0 ? $0 + $1 : $0 } }
        let shown = others.prefix(6).enumerated().map { index, other in
            Chart.Line(name: "\(other.kind.status) \(other.kind.reason)", color: index + 2, series: other.series)
        }
        var rest = history.others
        for other in others.dropFirst(6) {
            for index in rest.indices where other.series[index] > 0 { rest[index] += other.series[index] }
        }
        let more = rest.contains { $0 > 0 } ? [Chart.Line(name: "other", color: 7, series: rest)] : []
        var chart = Chart(title: "Responses other than 2xx, per second", unit: .perSecond, lines: shown + more)
        chart.isStacked = true
        return chart.html
    }

    private func row(_ app: ProcessSnapshot.App) -> String {
        let share = app.capacity > 0 ? Double(app.streams) / Double(app.capacity) * 100 : 0
        let recent = facts.history.recent.first { $0.label == app.label }?.latencies
        let quantile = { (share: Double) in recent?.quantile(share).map { PageText.seconds($0) } ?? "–" }
        let streams =
            "\(app.streams.grouped) of \(app.capacity.grouped) "
            + "<meter min=\"0\" max=\"100\" value=\"\(Int(share.rounded()))\"></meter>"
        let cells = [
            ("app", "<b>\(app.label.forHTML)</b>"), ("state", state(app)), ("bottleneck", bottleneck(app)),
            ("sessions", "\(app.sessions)"), ("streams", streams),
            ("round trip", app.figures.roundTrip.map { PageText.milliseconds($0) } ?? "–"), ("p50", quantile(0.5)),
            ("p99", quantile(0.99)), ("credential", credential(app)),
        ]
        return "<tr>\(cells.map { "<td data-label=\"\($0)\">\($1)</td>" }.joined())</tr>"
    }

    private func state(_ app: ProcessSnapshot.App) -> String {
        if let hold = app.hold {
            return "<span class=\"chip bad\">held: \(hold.kind.replacing("_", with: " "))</span>"
                + "<span class=\"why\">\(hold.wholeSentence.forHTML)</span>"
        }
        if app.isPaused { return "<span class=\"chip warn\">paused</span>" }
        return app.capacity > 0 ? "<span class=\"chip good\">open</span>" : "<span class=\"chip bad\">no session</span>"
    }

    private func bottleneck(_ app: ProcessSnapshot.App) -> String {
        let name = app.bottleneck.rawValue.replacing("_", with: " ")
        return app.bottleneck.isQuiet
            ? "<span class=\"soft\">\(name)</span>"
            : "<span class=\"chip warn\">\(name)</span>"
    }

    private func credential(_ app: ProcessSnapshot.App) -> String {
        if let end = app.certificateExpires {
            let days = (end - facts.wallClock.unixSeconds) / 86_400
            return "<span class=\"\(days < 30 ? "bad" : "")\">certificate, \(days.counted("day")) left</span>"
        }
        return app.tokenAge.map { "token, \(PageText.span($0 / .seconds(1))) old" } ?? "token, not created yet"
    }

    private func commands(_ apps: [ProcessSnapshot.App]) -> String {
        let file = facts.options.file
        var commands = [("Check the credentials", ShellCommand("check", file).html)]
        for app in apps.filter({ $0.hold != nil }).prefix(5) {
            commands.append(("Prove the credential of \(app.label)", ShellCommand("check", file, "--prove").html))
        }
        for app in apps.prefix(5) where apps.count > 1 && !app.isPaused {
            commands.append(("Pause \(app.label)", ShellCommand("pause", file, "--app", app.label, "--for", "10m").html))
        }
        return ListSection.details(commands, id: "apps")
    }
}
