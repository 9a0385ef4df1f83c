import RedisQueue

/// The part of the page about one list: its figures, its charts and its commands.
struct ListSection {
    let list: RedisReading.List
    let facts: PageFacts

    var html: String {
        let status = list.status
        let pauses = status.pauses.map(PauseNote.init)
        return """
            <section><h2>List <em>\(list.name.forHTML)</em>\
            \(pauses.isEmpty ? "" : "<span class=\"chip warn\">paused</span>")</h2>\
            <div class="tiles">\(tiles(status))</div><div class="charts">\(charts)</div>\
            <dl>\(counters(status))</dl>\(pauseList(pauses))\(commands(status, pauses))</section>
            """
    }

    private func tiles(_ status: QueueStatus) -> String {
        let age = list.age.map { PageText.seconds($0 / .seconds(1)) }
        let drain = list.drain.map { PageText.seconds($0) }
        return [
            Self.tile("sent per second", list.sentPerSecond.map(PageText.rate) ?? "–", "of all workers", kind: "accent"),
            Self.tile("backlog", status.backlog.grouped, "waiting in the list"),
            Self.tile("age", age ?? "–", age == nil ? "unknown" : "of the next job"),
            Self.tile("drains in", drain ?? "–", drain == nil ? "nothing leaves" : "at this rate"),
            Self.tile("in flight", status.inFlight.grouped, "not settled yet"),
            Self.tile("delayed", status.delayed.grouped, "not due yet"),
            Self.tile("dead", status.dead.grouped, "dead letters", kind: status.dead > 0 ? "bad" : ""),
            Self.tile("feedback", status.feedback.grouped, "entries"),
        ].joined()
    }

    static func tile(_ name: String, _ value: String, _ words: String, kind: String = "") -> String {
        "<div class=\"tile \(kind)\"><span>\(name)</span><b>\(value.forHTML)</b><i>\(words)</i></div>"
    }

    private var charts: String {
        let name = list.name
        return facts.history.lists.first { $0.name == name }.map(Self.charts) ?? ""
    }

    /// The part about a list that Redis did not return.
    static func html(unknown list: History.List) -> String {
        """
        <section><h2>List <em>\(list.name.forHTML)</em><span class="chip bad">unknown</span></h2>\
        <div class="charts">\(charts(list))</div></section>
        """
    }

    private static func charts(_ known: History.List) -> String {
        [
            Chart(title: "Sent per second", unit: .perSecond, lines: [.init(name: "sent", color: 0, series: known.sent)]),
            Chart(title: "Backlog", unit: .number, lines: [.init(name: "backlog", color: 1, series: known.backlog)]),
            Chart(title: "Age of the next job", unit: .seconds, lines: [.init(name: "age", color: 2, series: known.age)]),
        ].map(\.html).joined()
    }

    private func counters(_ status: QueueStatus) -> String {
        Counter.allCases.map {
            "<div><dt>\($0.rawValue.replacing("_", with: " "))</dt><dd>\(status.counters[$0, default: 0].grouped)</dd></div>"
        }.joined()
    }

    private func pauseList(_ pauses: [PauseNote]) -> String {
        if pauses.isEmpty { return "" }
        let items = pauses.map { note in
            let app = note.app.map { ["--app", $0] } ?? []
            return "<li><span>\(note.scopedSentence.forHTML)</span>\(command("resume", app))</li>"
        }
        return "<ul class=\"pauses\">\(items.joined())</ul>"
    }

    private func commands(_ status: QueueStatus, _ pauses: [PauseNote]) -> String {
        var commands = [("Look at the next jobs", command("peek"))]
        if status.delayed > 0 { commands.append(("Look at delayed jobs", command("peek", ["--delayed"]))) }
        if !pauses.contains(where: { $0.app == nil }) {
            commands.append(("Stop all claims", command("pause", ["--for", "10m", "--reason", "TEXT"])))
        }
        commands.append(("Find a push", command("find", ["--token", "TOKEN"])))
        commands.append(("Remove jobs of an app", command("cancel", ["--app", "APP"])))
        if status.cancelled > 0 {
            commands.append(("Restore \(status.cancelled.counted("cancelled job"))", command("cancel", ["--undo"])))
        }
        if status.feedback > 0 { commands.append(("Take feedback entries", command("feedback", ["take"]))) }
        return Self.details(commands, id: "list \(list.name)")
    }

    private func command(_ call: String, _ arguments: [String] = []) -> String {
        var command = ShellCommand(call, facts.options.file)
        let place = facts.reading.lists.count > 1 ? ["--list", list.name] : []
        for word in arguments + place { command.text += " " + ShellCommand.quoted(word) }
        return command.html
    }

    /// Commands behind a disclosure, which keeps its state when the page refreshes.
    static func details(_ commands: [(purpose: String, html: String)], id: String) -> String {
        let rows = commands.map { "<div><dt>\($0.purpose.forHTML)</dt><dd>\($0.html)</dd></div>" }
        return """
            <details data-id="\(id.forHTML)"><summary>Commands</summary><dl class="commands">\(rows.joined())</dl></details>
            """
    }
}
