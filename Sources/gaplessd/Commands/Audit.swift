import ArgumentParser
import JSONBytes
import RedisQueue

/// `gaplessd audit`: verifies that every claimed job is accounted for. The sum is `Counter.unexplained` (`AuditSum.swift`).
struct Audit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Prints and verifies the accounting of claimed jobs.",
        discussion: """
            For each list: claimed = sent + retried + postponed + dead + expired + superseded + released + recovered + in \
            flight. The sums agree at any moment, also under load: a claimed job is counted in the same step that removes it \
            from its worker. The difference is "unexplained": positive if claimed jobs are missing, negative if more jobs were \
            settled than claimed.

            If Redis was emptied or put back to an earlier state, 'audit' prints this instead of "balances": the figures lack \
            what Redis has lost. A worker that was running or has started since has noticed it, or the state folder of this host \
            has later figures. If Redis was emptied and restarted at once, or another Redis has its address, a line says so \
            after "balances".

            It also reports jobs in flight of unregistered workers, registered workers without a record, delayed jobs that no \
            daemon wrote, unreadable dead letters and unknown keys.

            --json prints one object on one line: "balanced", "unexplained" (the sum) and "lists". Each element of "lists" has \
            "list", the terms, "unexplained", "cancelled", "paused", "stranded" (worker and jobs), "recordless_workers", \
            "delayed_without_bar", "unreadable_dead", "foreign_keys", and "emptied", "rolled_back" and "replaced" (Unix seconds, \
            or null).

            Exit status: 0 the sums agree; 1 they differ, or an unregistered worker has jobs in flight; 64 wrong usage, 69 Redis \
            did not respond, 78 a fault in the settings, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let configuration = try file.read()
        let settings = configuration.settings
        try RedisAccess.run(settings) { client in
            let reports = try settings.lists.map { list in
                let keys = Keys(list: list)
                let audit = try QueueAudit.read(&client, keys)
                let unreadable = try DeadLetterWalk(keys).count(&client, limit: .max).unreadable
                let before = DataSetFile(settings, list, in: configuration.stateFolder)?.read()
                return AuditReport(list: list, audit: audit, unreadable: unreadable, before: before)
            }
            let lines = json ? [AuditReport.object(reports).line] : Array(reports.map(\.lines).joined(separator: [""]))
            StandardStreams.print(lines)
            if !reports.allSatisfy(\.isBalanced) { throw ExitCode.failure }
        }
    }
}

/// The accounting of one list, and notes.
struct AuditReport {
    var list: String
    var audit: QueueAudit
    /// Number of dead letters with an unreadable record.
    var unreadable: Int
    /// The last reading of a daemon on this host.
    var before: DataSet?

    var isBalanced: Bool { audit.status.unexplained == 0 && audit.stranded.isEmpty }

    /// The counters of settled jobs, and the jobs in flight.
    private var terms: [(name: String, count: Int64)] {
        let settled = Counter.settled.map { ($0.rawValue, audit.status.counters[$0, default: 0]) }
        return settled + [("in_flight", Int64(audit.status.inFlight))]
    }

    private var claimed: Int64 { audit.status.counters[.claimed, default: 0] }

    var lines: [String] {
        let rows =
            [("  claimed", claimed)]
            + terms.enumerated().map { ($0 == 0 ? "= " : "+ ", $1) }
            .map { ($0 + $1.name.spaced, $1.count) }
        let width = rows.map(\.1.grouped.count).max() ?? 0
        let columns = rows.map { name, count in name.padded(to: 14) + count.grouped.padded(leftTo: width) }
        return ["list \(list.printable)"] + columns + verdicts + notes.map { "note: \($0)" }
    }

    /// The losses that workers found, and the one since the last reading of this host.
    private var losses: [(loss: DataSet.Loss, at: Int64, text: String)] {
        var losses = audit.losses.map { loss, at in
            (loss, at, text(of: loss, "before \(LocalTime.zoned(at)), as a worker found"))
        }
        if let before, let loss = before.loss(to: audit.data), !audit.losses.contains(where: { $0.at >= before.at / 1000 }) {
            let since = "after \(LocalTime.zoned(before.at / 1000)), as this host remembers"
            losses.append((loss, audit.data.at / 1000, text(of: loss, since)))
        }
        return losses
    }

    private func text(of loss: DataSet.Loss, _ time: String) -> String {
        switch loss {
        case .emptied: "Redis was emptied \(time): these figures begin there"
        case .rolledBack: "Redis was put back to an earlier state \(time): these figures lack what it has lost"
        case .replaced: "Redis was emptied, or another one took its address, \(time): these figures begin there"
        }
    }

    /// What Redis has lost cannot balance. A data set that may be that of another Redis can.
    private var verdicts: [String] {
        let losses = losses
        let isCertain = losses.contains { $0.loss != .replaced }
        var lines = (isCertain && audit.status.unexplained == 0 ? [] : [verdict]) + losses.map(\.text)
        if isEmpty, losses.isEmpty {
            lines.append("No worker has registered here since Redis was empty: there are no figures yet.")
        }
        return lines
    }

    private var isEmpty: Bool { audit.data.epoch.isEmpty && claimed == 0 && terms.allSatisfy { $0.count == 0 } }

    private var verdict: String {
        let difference = audit.status.unexplained
        if difference > 0 {
            return "does not balance: \(difference.counted("claimed job")) missing"
        }
        if difference < 0 { return "does not balance: the terms exceed claimed by \(difference.magnitude.grouped)" }
        return "balances"
    }

    private var notes: [String] {
        var notes = audit.stranded.map { stranded in
            "jobs in flight of the unregistered worker \(stranded.worker.printable), which no worker takes over: "
                + stranded.jobs.grouped
        }
        if audit.status.cancelled > 0 {
            notes.append("cancelled jobs, which 'cancel --undo' restores: \(audit.status.cancelled.grouped)")
        }
        notes += audit.status.pauses.map { PauseNote($0).scopedSentence.printable }
        notes += audit.recordless.map {
            "registered worker without a record, whose jobs are taken over after the lease: \($0.printable)"
        }
        if audit.delayedWithoutBar > 0 {
            notes.append("delayed jobs that no daemon wrote, which are pushed unchanged: \(audit.delayedWithoutBar.grouped)")
        }
        if unreadable > 0 { notes.append("unreadable dead letters, which 'dead' skips: \(unreadable.grouped)") }
        notes += audit.foreignKeys.map { "unknown key: \($0.printable)" }
        return notes
    }

    static func object(_ reports: [AuditReport]) -> JSONValue {
        .members([
            "balanced": .bool(reports.allSatisfy(\.isBalanced)),
            "unexplained": .integer(reports.reduce(Int64(0)) { $0 &+ $1.audit.status.unexplained }),
            "lists": .array(reports.map(\.object)),
        ])
    }

    private var object: JSONValue {
        let counts = [("claimed", claimed)] + terms + [("unexplained", audit.status.unexplained)]
        let stranded = audit.stranded.map { JSONValue.members(["worker": .string($0.worker), "jobs": .integer($0.jobs)]) }
        let members: [(String, JSONValue)] =
            [("list", .string(list))] + counts.map { ($0.0, .integer($0.1)) } + [
                ("cancelled", .integer(audit.status.cancelled)),
                ("paused", .array(audit.status.pauses.map { PauseNote($0).object(list: list) })),
                ("stranded", .array(stranded)), ("recordless_workers", .array(audit.recordless.map(JSONValue.string))),
                ("delayed_without_bar", .integer(audit.delayedWithoutBar)), ("unreadable_dead", .integer(unreadable)),
                ("foreign_keys", .array(audit.foreignKeys.map(JSONValue.string))),
            ] + DataSet.Loss.allCases.map { ($0.rawValue, time(of: $0)) }
        return .object(members.map { JSONMember($0.0, $0.1) })
    }
}

extension AuditReport {
    /// Unix seconds.
    private func time(of loss: DataSet.Loss) -> JSONValue {
        losses.last { $0.loss == loss }.map { .integer($0.at) } ?? .null
    }
}

extension String {
    /// The name with spaces: `in flight`.
    fileprivate var spaced: String { String(map { $0 == "_" ? " " : $0 }) }
}
