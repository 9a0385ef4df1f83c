import Platform

/// The HTML page at `/`: the state of the lists and of this daemon, the last hour as charts, and for each action the command
/// to copy. It changes nothing.
struct StatusPage {
    private let facts: PageFacts
    private let faults: [String]
    private let pauses: [String]

    init(_ facts: PageFacts) {
        self.facts = facts
        faults = Readiness.faults(facts.notice, now: facts.now)
        pauses = Readiness.pauses(facts.notice)
    }

    var html: String {
        let nonce = String(UInt64.random(in: .min ... .max), radix: 36)
        return """
            <!doctype html><html lang="en"><head><meta charset="utf-8"><title>\(title) · gaplessd</title>
            <meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-\(nonce)'; \
            script-src 'nonce-\(nonce)'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'">
            <noscript><meta http-equiv="refresh" content="5"></noscript><link rel="icon" href="data:,">
            <style nonce="\(nonce)">\(Self.style)</style></head><body>\(content)
            <script nonce="\(nonce)">\(Self.script)</script></body></html>

            """
    }

    private var title: String { faults.isEmpty ? (pauses.isEmpty ? "ready" : "paused") : "not ready" }

    private var content: String {
        """
        <div id="page"><header><h1>gaplessd <small>\(gaplessdVersion.forHTML)</small></h1>\(pill)\
        <span class="when">\(LocalTime.text(of: facts.wallClock.unixSeconds))</span></header>\
        \(problems)\(lists)\
        \(AppTable(facts: facts).html)\(LetterSection(facts: facts).html)\(WorkerTable(facts: facts).html)\(footer)</div>
        """
    }

    private var lists: String {
        if facts.reading.lists.isEmpty { return facts.history.lists.map(ListSection.html(unknown:)).joined() }
        return facts.reading.lists.map { ListSection(list: $0, facts: facts).html }.joined()
    }

    private var pill: String {
        faults.isEmpty
            ? #"<span class="pill good">ready</span>"# + (pauses.isEmpty ? "" : #"<span class="pill warn">paused</span>"#)
            : #"<span class="pill bad">not ready</span>"#
    }

    private var problems: String {
        let fault = facts.reading.fault.map { ["the figures of the lists are unknown: \($0)"] } ?? []
        let bad = (faults + fault).map { "<li>\($0.forHTML)</li>" }
        let notes = pauses.map { "<li class=\"warn\">\($0.forHTML)</li>" }
        return bad.isEmpty && notes.isEmpty ? "" : "<ul class=\"problems\">\((bad + notes).joined())</ul>"
    }

    private var footer: String {
        let system = facts.system
        let megabytes = (Double(system.residentBytes) / 1e5).rounded() / 10
        let dropped = facts.droppedLines > 0 ? " · \(facts.droppedLines.grouped) log lines dropped" : ""
        return """
            <footer>This process: up \(PageText.span(facts.wallClock.seconds - system.started)) · \(megabytes) MB resident · \
            \(facts.notice?.snapshot.inFlight.grouped ?? "0") in flight\(dropped) · <a href="/metrics">metrics</a> · \
            <a href="/readyz">readyz</a> · <a href="/healthz">healthz</a></footer>
            """
    }
}
