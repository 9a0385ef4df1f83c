internal import APNSSimulator
import Glibc
internal import Harness
internal import RedisQueue

extension Trial {
    /// Waits until all jobs are settled, stops all programs, and verifies the accounting.
    func close() throws -> Result {
        let record = producer?.stop() ?? Producer.Record()
        guard waitUntil(atMost: .seconds(120), { (try? stage.status().isDrained) ?? false }) else {
            throw TrialError(description: "not drained after two minutes: \(try stage.status())\n" + logs)
        }
        // A new daemon may not handle signals yet.
        _ = waitUntil(atMost: .seconds(30)) { (try? daemons.allSatisfy { try isRegistered($0) }) ?? false }
        if !daemons.isEmpty { measureIdleness(of: daemons, for: .seconds(1)) }
        endDaemons()
        let status = try stage.status()
        _ = stage.service.stop()
        if rule == .survival { excuse(Set(0..<queued).union(record.acknowledged)) }
        try afterwards?(status)
        let queued = Set(0..<queued).union(record.acknowledged).subtracting(excused)
        let maybe = record.unknown.union(excused)
        let ledger = stage.service.ledger
        let dead = countsDeadLettersOnly ? [] : try stage.deadLetterCounts().tokens
        var accounting = Accounting(
            queued: Set(queued.map(deviceToken)), maybe: Set(maybe.map(deviceToken)), ledger: ledger,
            dead: dead)
        accounting.dead = status.dead
        accounting.addIdentical(identical)
        judge(accounting, status)
        if diesOnlyByAnswers { judgeDeaths(dead, ledger) }
        if !failures.isEmpty { fail("the log ends with:\n\(logs)") }
        return Result(
            times: times, accounting: accounting, bound: bound, counted: status.counter(.maybeDuplicate), recovery: recovery,
            gone: Set(excused.map(deviceToken)).subtracting(ledger.accepted.keys).subtracting(dead).count, figures: figures,
            failures: failures, notes: notes)
    }

    private func endDaemons() {
        for daemon in daemons {
            if let exit = daemon.process.poll() { fail("gaplessd exited by itself: \(exit)") }
            stop(daemon)
        }
    }

    private func judgeDeaths(_ dead: [String], _ ledger: Harness.Ledger) {
        let answers = ledger.entries.reduce(into: [String: [Int]]()) { $0[$1.token, default: []].append($1.status) }
        for token in dead {
            let statuses = answers[token, default: []]
            if !statuses.contains(410) && statuses.count(where: { $0 == 503 }) < 4 {
                fail("\(token) is a dead letter after the responses \(statuses)")
            }
        }
    }

    private func judge(_ accounting: Accounting, _ status: QueueStatus) {
        if rule == .survival { return }
        if accounting.lost > 0 || accounting.unexpected > 0 { fail("\(accounting)") }
        let allowed = rule == .nothingTwice ? 0 : bound
        if accounting.extra > allowed { fail("\(accounting.extra) were delivered twice, at most \(allowed) are allowed") }
        let counted = status.counter(.maybeDuplicate)
        if accounting.extra > counted { fail("\(accounting.extra) were delivered twice, but maybe_duplicate is \(counted)") }
        if status.unexplained != 0 {
            let counters = status.counters.map { "\($0.key.rawValue) \($0.value)" }.sorted().joined(separator: ", ")
            fail("\(status.unexplained) claimed jobs that no counter explains: \(counters)")
        }
        do {
            let left = try stage.leftoverKeys()
            if !left.isEmpty { fail("left in Redis: \(left.joined(separator: " "))") }
        } catch {
            fail("cannot list the keys in Redis: \(error)")
        }
    }
}
