import RedisQueue

/// The part of the page about the workers of all lists.
struct WorkerTable {
    let facts: PageFacts

    var html: String {
        let rows = facts.reading.lists.flatMap { list in
            list.status.workers.map { worker in
                let detail = { (name: String) in (worker.details[name] ?? "unknown").forHTML }
                let started = worker.details["started"].flatMap { Int64($0) }.map(LocalTime.text) ?? "unknown"
                let sent = worker.details["sent"].flatMap { Int64($0) } ?? 0
                let cells = [
                    ("host", "<b>\(detail("host"))</b>"), ("pid", detail("pid")), ("list", list.name.forHTML),
                    ("version", detail("version")), ("since", started.forHTML), ("in flight", worker.inFlight.grouped),
                    ("sent", sent.grouped),
                ]
                return "<tr>\(cells.map { "<td data-label=\"\($0)\">\($1)</td>" }.joined())</tr>"
            }
        }
        if rows.isEmpty { return "" }
        let head = ["host", "pid", "list", "version", "since", "in flight", "sent"].map { "<th>\($0)</th>" }.joined()
        return """
            <section><h2>Workers</h2><div class="wide"><table class="stacked"><thead><tr>\(head)</tr></thead>\
            <tbody>\(rows.joined())</tbody></table></div></section>
            """
    }
}
