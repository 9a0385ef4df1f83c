import APNSSimulator
import Harness
import Platform
internal import RedisQueue

/// A mix of error responses, and the outcome of each job by the retry table.
enum ErrorMix {
    /// Every 40th request gets 500: three of them in a row would end the session.
    static func script(seed: UInt64) -> APNSSimulator.Script {
        APNSSimulator.Script(
            seed: seed,
            failures: [
                .init(.reason(.badDeviceToken), 0.05), .init(.reason(.badCollapseId), 0.05), .init(.usual(410), 0.05),
                .init(.usual(413), 0.05), .init(.usual(429), 0.2), .init(.usual(503), 0.25), .init(.resetStream(code: 2), 0.1),
                .init(.resetStream(code: 7), 0.05),
            ], turns: [.init(40, repeats: true, .usual(500))])
    }

    /// The outcome of a job.
    private enum End: Hashable {
        case delivered
        case dead(status: Int)
        /// There are too few or too many responses.
        case wrong
    }

    /// docs/design.md, "Effect of a response", once more and independently: 429, 500 and 503 are counted and the fourth is one
    /// too many, streams that were reset (status 0) are not, and everything else is final.
    private static func end(of statuses: [Int]) -> (end: End, counted: Int) {
        var counted = 0
        for (place, status) in statuses.enumerated() {
            let isLast = place == statuses.count - 1
            switch status {
            case 200: return (isLast ? .delivered : .wrong, counted)
            case 0: continue
            case 429, 500, 503:
                if counted == 3 { return (isLast ? .dead(status: status) : .wrong, counted) }
                counted += 1
            default: return (isLast ? .dead(status: status) : .wrong, counted)
            }
        }
        return (.wrong, counted)
    }

    static func judge(_ trial: Trial, _ status: QueueStatus) throws {
        let statuses = trial.stage.service.ledger.entries.reduce(into: [String: [Int]]()) {
            $0[$1.token, default: []].append($1.status)
        }
        let ends = statuses.mapValues { end(of: $0) }
        let wrong = ends.filter { $0.value.end == .wrong }.keys
        for token in wrong.prefix(5) { trial.fail("\(token) got only the responses \(statuses[token, default: []])") }
        let (dead, reasons) = try trial.stage.deadLetterCounts()
        let wanted = ends.filter { if case .dead = $0.value.end { true } else { false } }.keys
        if dead.count != wanted.count || Set(dead) != Set(wanted) {
            trial.fail("\(dead.count) dead letters; expected \(wanted.count)")
        }
        judgeReasons(trial, reasons, ends.values.map(\.end))
        judgeCounters(trial, status, counted: ends.values.reduce(0) { $0 + $1.counted })
    }

    private static func judgeReasons(_ trial: Trial, _ reasons: [String: Int], _ ends: [End]) {
        let answers = trial.stage.simulator.totals.answers
        func final(_ answer: String) -> Int { answers[answer, default: 0] }
        func exhausted(_ status: Int) -> Int { ends.count { $0 == .dead(status: status) } }
        let wanted = [
            "BadDeviceToken": final("400 BadDeviceToken"), "BadCollapseId": final("400 BadCollapseId"),
            "Unregistered": final("410 Unregistered"), "PayloadTooLarge": final("413 PayloadTooLarge"),
            "TooManyRequests": exhausted(429), "InternalServerError": exhausted(500), "ServiceUnavailable": exhausted(503),
        ].filter { $0.value > 0 }
        if reasons != wanted { trial.fail("dead letters \(reasons); expected \(wanted)") }
    }

    private static func judgeCounters(_ trial: Trial, _ status: QueueStatus, counted: Int) {
        let answers = trial.stage.simulator.totals.answers
        let (doubtful, refused) = (answers["RST_STREAM 2", default: 0], answers["RST_STREAM 7", default: 0])
        let rejectedTokens = answers["400 BadDeviceToken", default: 0] + answers["410 Unregistered", default: 0]
        let wanted = [
            ("retried", status.counter(.retried), counted), ("resent", status.counter(.resent), doubtful + refused),
            ("maybe_duplicate", status.counter(.maybeDuplicate), doubtful), ("feedback", status.feedback, rejectedTokens),
        ]
        for (name, found, right) in wanted where found != right { trial.fail("\(name) is \(found); expected \(right)") }
    }
}
