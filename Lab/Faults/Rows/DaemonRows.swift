import Glibc
import Harness
import Platform
internal import RedisQueue

/// Faults of the daemon: SIGKILL.
extension Fault {
    static let daemonRows = [killed, killedInside, oneOfTwoKilled, poison] + frozenRows + stopRows + limitRows + clockRows

    private static let killed = Fault(
        number: 1, name: "kill", title: "kill -9 of the daemon under load", rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "5ms..15ms", "--fail", "503:1%"])
        var daemon = try trial.start()
        try trial.produce()
        for _ in 1...trial.times(50) {
            trial.pause(50...800)
            try trial.inject { daemon = try trial.killAndRestart(daemon) }
        }
    }

    /// The proxy before Redis kills the daemon when a call passes: before Redis receives it, after, or instead.
    private static let killedInside = Fault(
        number: 2, name: "kill-inside", title: "kill -9 during claim, settle, release, sign-off", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "20ms..60ms"], proxies: true)
        var daemon = try trial.start()
        try trial.produce()
        let calls = [(Script.claim, false), (Script.settle, false), (Script.settle, true), (Script.unregister, true)]
        for index in 1...(trial.scale == .full ? 50 : 6) {
            let (script, isLeaving) = calls[index % calls.count]
            let moment = FaultProxy.Tripwire.Moment.allCases.randomElement(using: &trial.random)!
            try trial.inject {
                var exit: ChildProcess.Exit?
                for attempt in 1...10 {
                    if attempt > 1 { daemon = try trial.start() }
                    if !isLeaving { trial.pause(10...100) }
                    try trial.awaitBusy()
                    let process = daemon.process
                    // A connection sends the full script the first time.
                    trial.stage.redisProxy?.set(.init(on: script.sha, script.text, at: moment) { process.kill(SIGKILL) })
                    if isLeaving { process.kill(SIGTERM) }
                    exit = trial.awaitEnd(of: daemon)
                    // A daemon without a job in flight leaves without a settlement: it needs another attempt.
                    if exit?.status != 0 { break }
                }
                if exit?.signal != SIGKILL { trial.fail("call \(index % calls.count) did not kill it \(moment): \(exit as Any)") }
                try trial.allowInFlightTwice()
                daemon = try trial.start()
            }
        }
    }

    /// Each daemon has its own machine id, so that only the lease reveals the death.
    private static let oneOfTwoKilled = Fault(
        number: 3, name: "kill-for-good", title: "one of two daemons killed for good, lease 2 s", rule: .onlyWhatWasInFlight
    ) { trial in
        let lease = Duration.seconds(2)
        try trial.open(simulator: ["--latency", "20ms..60ms"], settings: ["redis_lease": "2"])
        var daemons = try (0...1).map { try trial.start("daemon\($0)", under: trial.elsewhere($0)) }
        try trial.produce()
        for turn in 1...trial.times(10) {
            let victim = try trial.awaitBusy(of: daemons)
            try trial.inject {
                let heldAtMost = try trial.held(by: daemons[victim])
                trial.kill(daemons[victim])
                let start = Instant.now
                trial.allowTwice(max(heldAtMost, try trial.held(by: daemons[victim])))
                try trial.await("the other daemon takes over its jobs") { try trial.status().workers.count == 1 }
                let took = .now - start
                // The lease starts at the last heartbeat, which may be earlier than the kill.
                if took < lease / 2 { trial.fail("taken over \(took) after the kill, long before the end of the lease") }
                if took > lease * 2 + .seconds(5) { trial.fail("taken over only \(took) after the kill") }
            }
            daemons[victim] = try trial.start("daemon\(victim)", under: trial.elsewhere(turn + 1))
        }
    }

    /// When APNs receives one of these jobs, the row kills the daemon that sent it.
    private static let poison = Fault(
        number: 6, name: "poison", title: "jobs that always kill the daemon", rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        let jobs = trial.jobs(6000)
        let poisons = trial.scale == .full ? 10 : 1
        let tokens = Set((1...poisons).map { deviceToken($0 * jobs / (poisons + 1)) })
        try trial.open(simulator: ["--latency", "5ms"] + tokens.flatMap { ["--token", "\($0)=silent*99"] })
        try trial.queue(jobs)
        var daemon = try trial.start()
        var seen = 0
        while try trial.status().dead < poisons {
            let isSent = waitUntil(atMost: .milliseconds(500)) {
                let sends = trial.stage.service.ledger.entries.count { tokens.contains($0.token) }
                defer { seen = max(seen, sends) }
                return sends > seen
            }
            if isSent { try trial.inject { daemon = try trial.killAndRestart(daemon) } }
            if trial.times > 10 * poisons { throw TrialError(description: "killed \(trial.times) times without an end") }
        }
        let (dead, reasons) = try trial.stage.deadLetterCounts()
        if reasons != ["crash_suspect": poisons] || Set(dead) != tokens { trial.fail("dead letters: \(reasons)") }
    }
}
