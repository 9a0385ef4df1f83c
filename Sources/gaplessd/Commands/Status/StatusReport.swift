import JSONBytes
import RedisQueue

/// Formats a reading for `status`.
struct StatusReport {
    private let reading: StatusReading
    /// False with `redis_delivery: at_most_once`, which does not store jobs in flight.
    private let knowsInFlight: Bool

    init(_ reading: StatusReading, _ settings: Settings) {
        self.reading = reading
        knowsInFlight = settings.redis.delivery == .atLeastOnce
    }

    func lines(json: Bool) -> [String] {
        if json { return [object.line] }
        return Array(reading.lists.map(block).joined(separator: [""]))
    }

    // MARK: Text

    private func block(_ list: StatusReading.List) -> [String] {
        let status = list.status
        var lines = [
            "list        \(list.name.printable)",
            "backlog     \(status.backlog)\(asides(status))",
            "in flight   \(knowsInFlight ? "\(status.inFlight)" : "not stored in Redis (at_most_once)")",
            "delayed     \(status.delayed)",
            "recovered   \(status.recovered)",
            "dead        \(status.dead)\(reasons(list))",
            "feedback    \(status.feedback)\(status.feedback > 0 ? "  unregistered or suspect tokens" : "")",
            "counters    \(Counter.allCases.map { "\($0.rawValue) \(status.counters[$0, default: 0])" }.joined(separator: ", "))",
            "workers     \(status.workers.count)",
        ]
        if status.cancelled > 0 { lines.insert("cancelled   \(status.cancelled)  'cancel --undo' restores them", at: 7) }
        lines.insert(contentsOf: status.pauses.map { "paused      \(PauseNote($0).scopedSentence.printable)" }, at: 1)
        for worker in status.workers { lines += self.lines(worker, list.rates[worker.name]) }
        return lines
    }

    /// The apps with the most jobs in side lists.
    private func asides(_ status: QueueStatus) -> String {
        if status.asides.isEmpty { return "" }
        let apps = status.asides.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        let shown = apps.prefix(6).map { "\($0.key.isEmpty ? "(top level)" : $0.key.printable) \($0.value)" }
        return "  set aside until their app can take them: \((shown + (apps.count > 6 ? ["…"] : [])).joined(separator: ", "))"
    }

    /// The most frequent reasons. Names the number of counted dead letters if not all were counted.
    private func reasons(_ list: StatusReading.List) -> String {
        if list.reasons.isEmpty { return "" }
        let shown = list.reasons.prefix(6).map { "\($0.count) \($0.reason.isEmpty ? "no reason" : $0.reason.printable)" }
        let others = list.reasons.dropFirst(6).reduce(0) { $0 + $1.count }
        let all = shown + (others > 0 ? [others.counted("other")] : [])
        let read = list.reasons.reduce(0) { $0 + $1.count }
        return "  \(all.joined(separator: ", "))" + (read < list.status.dead ? " (of the newest \(read))" : "")
    }

    private func lines(_ worker: QueueStatus.Worker, _ rate: StatusReading.Rate?) -> [String] {
        let detail = { (name: String) in (worker.details[name] ?? "unknown").printable }
        let started = worker.details["started"].flatMap { Int64($0) }.map(LocalTime.text) ?? "unknown"
        let speed = rate.map { rate in
            "\(rate.claimed.perSecond) claimed, \(rate.sent.perSecond) sent (over \(rate.interval.roundedSeconds) s)"
        }
        return [
            "            \(detail("host")), pid \(detail("pid")), gaplessd \(detail("version")), since \(started)",
            "              \(worker.inFlight) in flight, claimed \(worker.count("claimed")), sent \(worker.count("sent"))",
            "              \(speed ?? "no rates yet")",
        ] + ReportedApp.all(of: worker).compactMap { $0.remark.map { "              \($0.printable)" } }
    }

    // MARK: JSON

    private var object: JSONValue {
        guard case .object(var members) = Self.sums(reading.lists.map(\.status)) else { return .null }
        let pauses = reading.lists.flatMap { list in list.status.pauses.map { PauseNote($0).object(list: list.name) } }
        members.append(JSONMember(key: "paused", value: .array(pauses), offset: 0))
        members.append(JSONMember(key: "lists", value: .array(reading.lists.map(object)), offset: 0))
        return .object(members)
    }

    private static func sums(_ all: [QueueStatus]) -> JSONValue {
        // Wrapping, because a server may reply with any number.
        func sum(_ value: (QueueStatus) -> Int) -> JSONValue { .integer(all.reduce(0) { $0 &+ value($1) }) }
        let counters = Counter.allCases.map { counter in
            let sum = all.reduce(Int64(0)) { $0 &+ $1.counters[counter, default: 0] }
            return JSONMember(key: counter.rawValue, value: .integer(sum), offset: 0)
        }
        return .members([
            "backlog": sum(\.backlog), "in_flight": sum(\.inFlight), "delayed": sum(\.delayed), "recovered": sum(\.recovered),
            "dead": sum(\.dead), "feedback": sum(\.feedback), "workers": sum { $0.workers.count },
            "counters": .object(counters), "cancelled": sum(\.cancelled),
        ])
    }

    private func object(_ list: StatusReading.List) -> JSONValue {
        guard case .object(let members) = Self.sums([list.status]) else { return .null }
        let reasons = list.reasons.map { JSONMember(key: $0.reason, value: .integer($0.count), offset: 0) }
        return .object(
            [JSONMember(key: "list", value: .string(list.name), offset: 0)] + members + [
                JSONMember(
                    key: "paused", value: .array(list.status.pauses.map { PauseNote($0).object(list: list.name) }), offset: 0),
                JSONMember(key: "dead_reasons", value: .object(reasons), offset: 0),
                JSONMember(
                    key: "live_workers", value: .array(list.status.workers.map { object($0, list.rates[$0.name]) }), offset: 0),
            ])
    }

    private func object(_ worker: QueueStatus.Worker, _ rate: StatusReading.Rate?) -> JSONValue {
        let number = { (name: String) in worker.details[name].flatMap { Int64($0) }.map { JSONValue.integer($0) } ?? .null }
        return .members([
            "name": .string(worker.name), "host": .optional(worker.details["host"]), "pid": number("pid"),
            "version": .optional(worker.details["version"]), "started": number("started"),
            "in_flight": .integer(worker.inFlight),
            "claimed": .integer(worker.count("claimed")), "sent": .integer(worker.count("sent")),
            "claimed_per_second": rate.map { .rounded($0.claimed) } ?? .null,
            "sent_per_second": rate.map { .rounded($0.sent) } ?? .null,
            "interval": rate.map { .rounded($0.interval / .seconds(1)) } ?? .null,
            "apps": ReportedApp.record(of: worker) ?? .null,
        ])
    }
}

extension Double {
    /// `5210/s`, or `0.4/s` below ten.
    fileprivate var perSecond: String {
        self >= 10 || self == 0 ? "\(Int64(min(rounded(), 1e15)))/s" : "\((self * 10).rounded() / 10)/s"
    }
}
