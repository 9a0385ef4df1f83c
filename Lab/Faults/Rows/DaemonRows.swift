import APNSSimulator
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
        var daemon = try trial.startProducing()
        try trial.injectAgain(50, after: 50...800) { _ in
            daemon = try trial.killAndRestart(daemon)
        }
    }

    /// The proxy before Redis kills the daemon when a call passes: before Redis receives it, after, or instead.
    private static let killedInside = Fault(
        number: 2, name: "kill-inside", title: "kill -9 during claim, settle, release, sign-off", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "20ms..60ms"], proxies: true)
        var daemon = try trial.startProducing()
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
                    trial.redisProxy.set(.init(on: script.sha, script.text, at: moment) { process.kill(SIGKILL) })
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
        var daemons = try trial.openForTwo(lease: 2, apart: true)
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
                let sends = trial.stage.ledger.entries.count { tokens.contains($0.token) }
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

/// Faults of the daemon: SIGSTOP for a while, alone or with all other processes.
extension Fault {
    static let frozenRows = [frozenLong, frozenQueue, frozenShort, suspended]

    private static let frozenLong = Fault(
        number: 4, name: "freeze-long", title: "SIGSTOP longer than the lease of 2 s", rule: .onlyWhatWasInFlight,
        longTurn: stopped
    ) { trial in
        let daemons = try trial.openForTwo(lease: 2)
        try trial.injectAgain(10) { _ in
            let victim = daemons[try trial.awaitBusy(of: daemons)]
            let fenced = try trial.status().counter(.fenced)
            victim.process.kill(SIGSTOP)
            trial.allowTwice(try trial.held(by: victim))
            try trial.await("the other daemon takes over its jobs") { try trial.status().workers.count == 1 }
            trial.pause(0...300)
            victim.process.kill(SIGCONT)
            try trial.await("the daemon registers again") { try trial.status().counter(.fenced) > fenced }
        }
    }

    /// The streams are full, and 250 jobs wait in the pool for the next response. Another daemon takes over and delivers all of
    /// them. When the first one continues, it finds the late responses, and must send none of the waiting jobs.
    private static let frozenQueue = Fault(
        number: 4, name: "freeze-queue", title: "SIGSTOP with 2,000 requests in flight and a queue in the pool",
        rule: .onlyWhatWasInFlight, stages: 5, longTurn: stopped
    ) { trial in
        var behaviour = Trial.accepting(after: 1000...1500)
        behaviour.tokenStreamLimit = 1000
        try trial.open(hosting: behaviour, settings: ["redis_lease": "2"])
        let simulator = trial.stage.simulator
        try trial.injectAgain(2) { round in
            let victim = try trial.start("victim-\(round)")
            // Before the first acceptance at most 20 jobs are claimed.
            try trial.queue(1)
            try trial.awaitDrained("the first is settled")
            try trial.queue(5000)
            try trial.await("the streams are full, and jobs wait") { try trial.held(by: victim) > 2200 }
            victim.process.kill(SIGSTOP)
            let fenced = try trial.status().counter(.fenced)
            // Two sessions with 1,000 streams each.
            trial.allowTwice(2000)
            let heir = try trial.start("heir-\(round)")
            try trial.awaitDrained("the other daemon delivers all", atMost: .seconds(60))
            let before = simulator.totals.requests
            victim.process.kill(SIGCONT)
            try trial.await("the daemon registers again") { try trial.status().counter(.fenced) > fenced }
            // The simulator counts a request when it answers.
            trial.pause(1600...2000)
            trial.stop(victim)
            trial.stop(heir)
            let late = simulator.totals.requests - before
            if late > 0 { trial.fail("\(late) jobs that another daemon had delivered were sent after the stop") }
        }
    }

    private static let stopped = "a stop of the process may fall into a turn"

    private static let frozenShort = Fault(
        number: 5, name: "freeze-short", title: "SIGSTOP shorter than the lease of 3 s", rule: .nothingTwice, longTurn: stopped
    ) { trial in
        let daemons = try trial.openForTwo(lease: 3)
        try trial.injectAgain(10) { _ in
            let victim = daemons[try trial.awaitBusy(of: daemons)]
            victim.process.kill(SIGSTOP)
            trial.pause(200...1800)
            victim.process.kill(SIGCONT)
        }
        trial.afterwards = { status in
            let taken = status.counter(.recovered) + status.counter(.fenced)
            if taken > 0 { trial.fail("\(taken) jobs or workers were taken over, although no daemon stopped for a lease") }
        }
    }

    /// All processes stop for longer than a lease and continue in any order, as on a suspended laptop.
    private static let suspended = Fault(
        number: 45, name: "suspend", title: "SIGSTOP of all processes, longer than the lease", rule: .onlyWhatWasInFlight,
        longTurn: stopped
    ) { trial in
        let daemons = try trial.openForTwo(lease: 1)
        guard let simulator = trial.stage.service as? SimulatorProcess else { preconditionFailure("the simulator has a process") }
        try trial.injectAgain(10) { _ in
            _ = try trial.awaitBusy(of: daemons)
            for daemon in daemons { daemon.process.kill(SIGSTOP) }
            try trial.allowInFlightTwice()
            let others = [trial.stage.redis.process, simulator.process]
            for process in others { process.kill(SIGSTOP) }
            trial.pause(1200...2500)
            for process in (others + daemons.map(\.process)).shuffled(using: &trial.random) {
                process.kill(SIGCONT)
                trial.pause(0...50)
            }
        }
    }
}

extension Trial {
    /// Opens a stage, and starts two daemons with a lease in seconds and a producer.
    ///
    /// - Parameter areApart: whether each daemon has its own machine id.
    fileprivate func openForTwo(lease: Int, apart areApart: Bool = false) throws -> [DaemonProcess] {
        try open(simulator: ["--latency", "20ms..60ms"], settings: ["redis_lease": String(lease)])
        let daemons = try (0...1).map { try start("daemon\($0)", under: areApart ? elsewhere($0) : []) }
        try produce()
        return daemons
    }
}

/// Stops of the daemon at a bad moment.
extension Fault {
    static let stopRows = [terminated, terminatedInSilence, terminatedThenKilled]

    private static let terminated = Fault(
        number: 7, name: "drain", title: "SIGTERM with 1,000 requests in flight and more claimed", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "200ms"], settings: ["apns_max_concurrent_streams": "1000"])
        trial.expectNoDoubt()
        var daemon = try trial.start()
        try trial.injectAgain(10) { _ in
            try trial.queue(trial.scale == .full ? 6000 : 2500)
            try trial.await("1,000 are in flight") { try trial.status().inFlight > 1000 }
            trial.pause(10...200)
            try trial.terminate(daemon)
            try judgeOrder(trial)
            daemon = try trial.start()
        }
    }

    /// Verifies that unsent jobs are back at the head of the list, in their original order.
    private static func judgeOrder(_ trial: Trial) throws {
        let jobs = try trial.stage.command(["LRANGE", Stage.list, "0", "4999"]).items?.compactMap(\.text) ?? []
        let numbers = jobs.compactMap { $0.firstMatch(of: #/"identifier":(\d+)/#).flatMap { Int($0.1) } }
        if numbers != numbers.sorted() { trial.fail("the released jobs are out of order") }
    }

    private static let terminatedInSilence = Fault(
        number: 8, name: "drain-silent", title: "SIGTERM, APNs silent, drain_timeout 1 s", rule: .onlyWhatWasInFlight
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15), settings: ["drain_timeout": "1"])
        var daemon = try trial.startProducing()
        try injectInSilence(trial) {
            let released = try trial.status().counter(.released)
            try trial.terminate(daemon)
            // The simulator accepts the requests in its sockets when it continues.
            trial.allowTwice(try trial.status().counter(.released) - released)
            daemon = try trial.start()
        }
    }

    private static let terminatedThenKilled = Fault(
        number: 9, name: "drain-kill", title: "SIGTERM, then SIGKILL within 1 s", rule: .onlyWhatWasInFlight
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        var daemon = try trial.startProducing()
        try injectInSilence(trial) {
            daemon.process.kill(SIGTERM)
            trial.pause(0...1000)
            // The daemon may have had no session yet.
            if let exit = daemon.process.poll(), exit.status != 0 { trial.fail("gaplessd exited with \(exit)") }
            daemon = try trial.killAndRestart(daemon)
        }
    }

    /// Injects the fault ten times while APNs neither reads nor responds, and at least 100 jobs wait.
    private static func injectInSilence(_ trial: Trial, _ body: () throws -> Void) throws {
        try trial.injectBusy(10, after: 10...200) { _ in
            trial.stage.simulator.behave { $0.isFrozen = true }
            try trial.await("100 jobs wait for a response") { try trial.status().inFlight > 100 }
            try body()
            trial.stage.simulator.behave { $0.isFrozen = false }
        }
    }
}
