import Harness
internal import RedisQueue

/// Faults of the jobs, or of the responses to them.
extension Fault {
    static let jobRows = [mixedAnswers, hostileJobs, alike, backlog, everything]

    /// Each job is delivered exactly once, or dead-lettered with the correct reason after the configured number of sends. 15
    /// tokens get only 503, while others are accepted. With 20 failures in a row, APNs would be failing, and no job would be
    /// dead-lettered.
    private static let mixedAnswers = Fault(
        number: 38, name: "answers", title: "2 % 503 and 1 % 410 responses", rule: .nothingTwice, isQuick: true
    ) { trial in
        let jobs = trial.jobs(100_000)
        let hopeless = (0..<15).map(deviceToken)
        try trial.open(
            simulator: [
                "--fail", "503:2%", "--dead", "1%", "--seed", "\(UInt32.random(in: 1...9999, using: &trial.random))",
            ] + hopeless.flatMap { ["--token", "\($0)=503*9"] })
        try trial.queue(jobs)
        try trial.start()
        try trial.produce()
        try trial.await("the jobs with 503 alone are dead letters", atMost: .seconds(120)) {
            Set(try trial.stage.deadLetterCounts().tokens).isSuperset(of: hopeless)
        }
        trial.afterwards = { [unowned trial] _ in
            try trial.awaitLedger()
            let entries = trial.stage.service.ledger.entries
            trial.count(entries.count { $0.status != 200 })
            let sends = entries.reduce(into: [:]) { counts, entry in counts[entry.token, default: 0] += 1 }
            for token in hopeless where sends[token] != 4 {
                trial.fail("\(sends[token, default: 0]) sends of \(token), which got only 503")
            }
            try judgeLog(trial, hopeless: hopeless.count, unavailable: entries.count { $0.status == 503 })
        }
    }

    /// Compares the log and the reasons with the simulator's ledger.
    private static func judgeLog(_ trial: Trial, hopeless: Int, unavailable: Int) throws {
        let (dead, reasons) = try trial.stage.deadLetterCounts()
        let log = trial.stage.standardErrors.split(separator: "\n")
        let lines = { (text: String) in log.count { $0.contains(text) } }
        let exhausted = reasons["ServiceUnavailable", default: 0]
        if exhausted < hopeless || Set(reasons.keys) != ["ServiceUnavailable", "Unregistered"] {
            trial.fail("dead letters with other reasons: \(reasons)")
        }
        if lines("Final SendPayload Error (ID ") != dead.count { trial.fail("the final log lines do not match the dead letters") }
        let resends = (1...3).map { lines("503 ServiceUnavailable. Retrying count (\($0)).") }
        let expected = unavailable - exhausted
        if resends.reduce(0, +) != expected || resends.contains(where: { $0 < hopeless }) {
            trial.fail("lines of resends 1, 2, 3: \(resends); expected \(expected) in total")
        }
    }

    /// Bytes that are no job, between good jobs: each becomes a dead letter byte for byte.
    private static let hostileJobs = Fault(
        number: 46, name: "hostile", title: "hostile jobs between good ones", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(simulator: [])
        // The daemon receives, parses, logs and dead-letters a job of 20 MB.
        trial.memoryCap = 256 << 20
        var bad: [[UInt8]] = []
        for number in 0..<trial.jobs(3000) {
            try trial.queue(1)
            if number % 10 == 0 {
                bad.append(HostileJob.make(number / 10, &trial.random))
                try trial.stage.push(bytes: bad.last!)
            }
        }
        try trial.start()
        try trial.await("all are settled") { try trial.stage.status().isDrained }
        trial.count(bad.count)
        let letters = try trial.stage.deadLetterJobs()
        for job in Set(bad) where letters.count(where: { $0 == job }) != bad.count(where: { $0 == job }) {
            trial.fail("not byte for byte in the dead letters: \(String(decoding: job.prefix(80), as: UTF8.self))")
        }
        if letters.count != bad.count { trial.fail("\(letters.count) dead letters for \(bad.count) bad jobs") }
        // The token of a bad job is arbitrary: here only deliveries can be unexpected.
        trial.countsDeadLettersOnly = true
    }

    /// Equal jobs that all fail once: none may replace another one in the sorted set of delayed jobs.
    private static let alike = Fault(
        number: 47, name: "alike", title: "1,000 identical jobs, all failing once", rule: .nothingTwice, isQuick: true
    ) { trial in
        let count = 1000
        // On a slow machine some jobs are sent again before others are sent once, and meet more than one 503.
        try trial.open(
            simulator: ["--token", "\(deviceToken(0))=503*\(count)"], settings: ["retry_limit": "100", "retry_delays": "[1.5]"])
        try trial.queue(1)
        try trial.stage.push(repeatElement(Trial.job(0), count: count - 1))
        trial.identical = count - 1
        try trial.start()
        try trial.await("all are settled") { try trial.status().isDrained }
        trial.count(count)
        trial.afterwards = { status in
            if status.counter(.retried) != count { trial.fail("\(status.counter(.retried)) resends after \(count) refusals") }
        }
    }

    /// The list only shrinks, also after kills, and the memory of the daemon stays constant.
    private static let backlog = Fault(
        number: 48, name: "backlog", title: "a backlog of a million, kill -9 twelve times", rule: .onlyWhatWasInFlight
    ) { trial in
        try trial.open(simulator: [])
        let jobs = trial.scale == .full ? 1_000_000 : 20_000
        try trial.queue(jobs)
        var daemon = try trial.start()
        let kills = trial.times(12)
        var before = jobs
        for kill in 1...kills {
            // At a random point of each part of the run, on any machine.
            let place = jobs - (kill * jobs - trial.draw(0...jobs / 2)) / (kills + 1)
            try trial.await("the list shrinks to \(place)", atMost: .seconds(120)) {
                let now = try trial.status().backlog
                if now > before { trial.fail("the list grew from \(before) to \(now) jobs") }
                before = now
                return now <= place
            }
            trial.judgeMemory(of: daemon)
            try trial.inject { daemon = try trial.killAndRestart(daemon) }
        }
        try trial.await("all are settled", atMost: .seconds(120)) { try trial.status().isDrained }
    }
}
