import JSONBytes
import RedisQueue

/// Formats the figures of a campaign.
struct CampaignReport {
    enum State: String { case running, paused, ended }

    private let status: CampaignStatus
    private let list: String
    private let pause: PauseNote?

    init(_ status: CampaignStatus, list: String, _ pauses: [QueuePause]) {
        (self.status, self.list) = (status, list)
        pause = pauses.first { $0.scope == .campaign(status.id) }.map(PauseNote.init)
    }

    var state: State { status.ended != nil && status.remaining == 0 ? .ended : pause != nil ? .paused : .running }

    private var rate: Double { state == .running ? status.rate : 0 }
    private var expectedEnd: Int64? { state == .running ? status.expectedEnd : nil }

    /// `spring_sale  running  audience 5,000  sent 1,200  dead 31  remaining 3,769  12/s  ends 2026/11/20 22:50:01 +01:00`.
    var line: String {
        let end = expectedEnd.map { "ends \(LocalTime.zoned($0 / 1000))" }
        let parts: [String?] = [
            status.id, state.rawValue, "audience \(status.audience.grouped)", "sent \(status.sent.grouped)",
            "dead \((status.dead + status.expired).grouped)",
            status.cancelled > 0 ? "cancelled \(status.cancelled.grouped)" : nil, "remaining \(status.remaining.grouped)",
            state == .running ? "\(rate.rate)/s" : nil, end, pause?.sentence,
        ]
        return parts.compactMap(\.self).joined(separator: "  ").printable
    }

    /// One figure on each line.
    var lines: [String] {
        let ended = state == .ended ? status.ended.map { LocalTime.zoned($0 / 1000) } : nil
        let rows: [(String, String?)] = [
            ("campaign", status.id), ("list", list),
            ("state", pause.map { "\(state.rawValue): \($0.sentence)" } ?? state.rawValue),
            ("audience", status.audience.grouped), ("waiting", status.waiting.grouped), ("sent", status.sent.grouped),
            ("dead", status.dead.grouped),
        ]
        let reasons = status.reasons.map { ("  \($0.reason)", String?.some($0.count.grouped)) }
        let rest: [(String, String?)] = [
            ("expired", status.expired.grouped), ("retried", status.retried.grouped), ("cancelled", status.cancelled.grouped),
            ("remaining", status.remaining.grouped), ("rate", "\(rate.rate)/s"),
            (
                "failures",
                "\(status.failures.grouped) of the last \(status.outcomes.grouped)"
                    + (status.stop > 0 ? ", stops at \(status.stop)" : "")
            ),
            ("over", status.over > 0 ? "\(status.over / 1000) s" : nil),
            ("created", status.created.map { LocalTime.zoned($0 / 1000) }), ("ended", ended),
            ("expected end", expectedEnd.map { LocalTime.zoned($0 / 1000) }),
            ("stop it", state == .running ? "gaplessd pause --campaign \(status.id)" : nil),
            ("continue it", state == .paused ? "gaplessd resume --campaign \(status.id)" : nil),
        ]
        return (rows + reasons + rest).compactMap { name, value in
            value.map { (name + String(repeating: " ", count: max(1, 14 - name.count)) + $0).printable }
        }
    }

    var object: JSONValue {
        func time(_ milliseconds: Int64?) -> JSONValue { milliseconds.map { .integer($0 / 1000) } ?? .null }
        return .members([
            "campaign": .string(status.id), "list": .string(list), "state": .string(state.rawValue),
            "paused": .optional(pause?.sentence), "audience": .integer(status.audience), "waiting": .integer(status.waiting),
            "sent": .integer(status.sent), "dead": .integer(status.dead),
            "dead_reasons": .object(status.reasons.map { JSONMember($0.reason, .integer($0.count)) }),
            "expired": .integer(status.expired), "retried": .integer(status.retried), "cancelled": .integer(status.cancelled),
            "remaining": .integer(status.remaining), "rate": .rounded(rate), "expected_end": time(expectedEnd),
            "created": time(status.created), "ended": time(state == .ended ? status.ended : nil),
            "over": status.over > 0 ? .rounded(Double(status.over) / 1000) : .null,
            "stop_at": .number("\(status.stopAt)"), "failures": .integer(status.failures),
            "outcomes": .integer(status.outcomes),
        ])
    }
}
