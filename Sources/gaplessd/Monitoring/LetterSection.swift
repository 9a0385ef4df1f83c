import RedisQueue

/// The part of the page about dead letters: their reasons, and the latest of them.
struct LetterSection {
    private static let mostReasons = 8

    let facts: PageFacts

    var html: String {
        let lists = facts.reading.lists.filter { $0.status.dead > 0 }
        if lists.isEmpty { return "" }
        return "<section><h2>Dead letters</h2>\(lists.map(part).joined())</section>"
    }

    private func part(_ list: RedisReading.List) -> String {
        guard let letters = list.letters else { return "" }
        let title = facts.reading.lists.count > 1 ? "<h3>\(list.name.forHTML)</h3>" : ""
        return "\(title)<div class=\"letters\">\(reasons(letters, list))\(latest(letters))</div>\(commands(letters, list))"
    }

    private func reasons(_ letters: DeadLetterSummary, _ list: RedisReading.List) -> String {
        let most = letters.reasons.first?.count ?? 1
        let rows = letters.reasons.prefix(Self.mostReasons).map { reason, count in
            """
            <tr><td>\((reason.isEmpty ? "no reason" : reason).forHTML)</td><td class="n">\(count.grouped)</td><td class="bar">\
            <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">\
            <rect width="\(max(1, count * 100 / max(1, most)))" height="8" rx="1"/></svg></td></tr>
            """
        }
        let others = letters.reasons.dropFirst(Self.mostReasons).reduce(0) { $0 + $1.count }
        let more = others > 0 ? "<tr><td>others</td><td class=\"n\">\(others.grouped)</td><td></td></tr>" : ""
        let counted = letters.reasons.reduce(0) { $0 + $1.count }
        let note = counted < list.status.dead ? "<caption>of the newest \(counted.grouped)</caption>" : ""
        return "<table class=\"reasons\">\(note)\(rows.joined())\(more)</table>"
    }

    private func latest(_ letters: DeadLetterSummary) -> String {
        let rows = letters.latest.map { letter in
            let token = letter.token.map(Redaction(isOn: facts.options.redacts).token) ?? "–"
            let reason = [letter.status.map { "\($0)" }, letter.reason].compactMap { $0 }.joined(separator: " ")
            return """
                <tr><td data-label="at" class="at">\((letter.at.map { LocalTime.text(of: $0) } ?? "–").forHTML)</td>\
                <td data-label="reason">\((reason.isEmpty ? "no reason" : reason).forHTML)</td>\
                <td data-label="ID" class="cut">\((letter.identifier ?? "–").forHTML)</td>\
                <td data-label="token" class="cut"><code>\(token.forHTML)</code></td></tr>
                """
        }
        return """
            <div class="wide"><table class="stacked"><thead><tr><th>at</th><th>reason</th><th>ID</th><th>token</th></tr></thead>\
            <tbody>\(rows.joined())</tbody></table></div>
            """
    }

    private func commands(_ letters: DeadLetterSummary, _ list: RedisReading.List) -> String {
        let place = facts.reading.lists.count > 1 ? ["--list", list.name] : []
        func command(_ arguments: [String]) -> String {
            var command = ShellCommand("dead", facts.options.file)
            for word in arguments + place { command.text += " " + ShellCommand.quoted(word) }
            return command.html
        }
        var commands = [("Show the latest one", command(["show", "\(list.status.dead)"]))]
        for (reason, _) in letters.reasons.prefix(3) where !reason.isEmpty {
            commands.append(("Send those with \(reason) again", command(["requeue", "--reason", reason, "--rate", "100"])))
        }
        return ListSection.details(commands, id: "dead \(list.name)")
    }
}
