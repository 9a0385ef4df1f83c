import APNSSimulator
import Glibc
import Harness
import Platform
internal import RedisQueue

extension Fault {
    /// Overlapping faults, for a given time. The daemons count the possible duplicates.
    static let everything = Fault(
        number: 50, name: "everything", title: "all faults at once, two daemons", rule: .onlyWhatWasInFlight
    ) { trial in
        var row = try EverythingRow(trial)
        try row.run(for: trial.duration ?? .seconds(trial.scale == .full ? 20 : 5))
        trial.afterwards = { trial.allowTwice($0.counter(.maybeDuplicate)) }
    }
}

/// Injects random faults; each ends after a while, independently of the others.
struct EverythingRow {
    enum Kind: CaseIterable {
        case kill, terminate, freeze, reload
        case cutRedis, pauseRedis, flushScripts, killRedis, tearRedis, silenceRedis, delayRedis
        case goAway, storm, refuseStreams, refuseToken, freezeAPNs, cutAPNs, loseAnswers, deadenAPNs, trickle
    }

    private let trial: Trial
    private var daemons: [DaemonProcess] = []
    private var redisToRestart: Instant?
    private var repairs: [(due: Instant, body: () throws -> Void)] = []

    init(_ trial: Trial) throws {
        self.trial = trial
        try trial.open(
            hosting: Trial.accepting(after: 5...50), redis: ["--appendonly", "yes", "--appendfsync", "always"], proxies: true,
            settings: [
                "redis_lease": "2", "drain_timeout": "2", "apns_request_timeout": "2", "apns_keepalive": "2",
                "apns_dial_timeout": "2",
            ])
        daemons = try (0...1).map { try trial.start("daemon\($0)") }
        try trial.produce(perSecond: 500)
        try trial.awaitSent(100)
    }

    mutating func run(for duration: Duration) throws {
        let end = Instant.now + duration
        while Instant.now < end {
            let kind = Kind.allCases.randomElement(using: &trial.random)!
            let victim = trial.draw(0...1)
            let length = Duration.milliseconds(trial.draw(5...1500))
            try inject(kind, victim, for: length)
            trial.count(1)
            trial.pause(50...600)
            try repair(until: .now)
            try supervise()
        }
        try repair(until: .now + .seconds(3600))
        try supervise()
        try trial.inject {}
        try supervise()
    }

    private mutating func repair(until instant: Instant) throws {
        let due = repairs.filter { $0.due <= instant }
        repairs.removeAll { $0.due <= instant }
        for repair in due { try repair.body() }
        if let server = redisToRestart, instant >= server { try restartRedis() }
    }

    /// Restarts daemons that have ended. A daemon may end only by SIGKILL or, after SIGTERM, with 0. SIGTERM also ends a process
    /// that does not handle signals yet; it has claimed nothing.
    private mutating func supervise() throws {
        for index in daemons.indices {
            guard let exit = daemons[index].process.poll() else { continue }
            trial.forget(daemons[index])
            let wasYoung = exit.signal == SIGTERM && !daemons[index].hasStarted
            if exit.signal != SIGKILL && exit.status != 0 && !wasYoung { trial.fail("gaplessd exited by itself: \(exit)") }
            daemons[index] = try trial.start("daemon\(index)")
        }
    }

    private mutating func restartRedis() throws {
        redisToRestart = nil
        try trial.stage.redis.restart()
        try trial.stage.reconnect()
    }

    private mutating func inject(_ kind: Kind, _ victim: Int, for length: Duration) throws {
        let process = daemons[victim].process
        switch kind {
        case .kill: process.kill(SIGKILL)
        case .terminate: process.kill(SIGTERM)
        case .reload: daemons[victim].reload()
        case .freeze:
            process.kill(SIGSTOP)
            // Sometimes longer than the lease.
            later(length * 2) { process.kill(SIGCONT) }
        case .killRedis where redisToRestart == nil:
            trial.stage.redis.kill()
            redisToRestart = .now + length / 3
        case .cutRedis: sendToRedis(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        case .pauseRedis: sendToRedis(["CLIENT", "PAUSE", String(Int(length / .milliseconds(1))), "ALL"])
        case .flushScripts: sendToRedis(["SCRIPT", "FLUSH"])
        case .killRedis: break
        case .tearRedis: redis(for: length) { ($0.tearsReply, $0.tearsRequest) = (0.02, 0.02) }
        case .silenceRedis: redis(for: length) { $0 = .halfOpen }
        case .delayRedis: redis(for: length) { $0.delay = .milliseconds(100) }
        default: injectIntoAPNs(kind, for: length)
        }
    }

    private mutating func injectIntoAPNs(_ kind: Kind, for length: Duration) {
        let proxy = trial.serviceProxy
        switch kind {
        case .goAway: trial.stage.simulator.goAway()
        case .storm: answers(for: length / 5) { $0.script.failures = [.init(.usual(503), 1)] }
        case .refuseStreams: answers(for: length) { ($0.streamLimit, $0.tokenStreamLimit) = (1, 1) }
        case .freezeAPNs: answers(for: length) { $0.isFrozen = true }
        case .refuseToken:
            answers(for: length / 5) { $0.script.failures = [.init(.status(403, "InvalidProviderToken"), 1)] }
            // The operator reloads all daemons.
            for daemon in daemons { later(length / 5) { daemon.reload() } }
        case .cutAPNs: proxy.cutAll()
        case .deadenAPNs: proxy.deadenAll()
        case .loseAnswers:
            proxy.behaviour.swallowsReplies = true
            later(length / 5) {
                proxy.cutAll()
                proxy.behaviour.swallowsReplies = false
            }
        case .trickle:
            proxy.behaviour.isBytewise = true
            later(length) { proxy.behaviour.isBytewise = false }
        default: break
        }
    }

    private mutating func later(_ wait: Duration, _ body: @escaping () throws -> Void) {
        repairs.append((.now + wait, body))
    }

    private mutating func redis(for length: Duration, _ change: (inout FaultProxy.Behaviour) -> Void) {
        let proxy = trial.redisProxy
        change(&proxy.behaviour)
        later(length) { proxy.behaviour = .init() }
    }

    /// Changes the behaviour of the simulator, and restores it afterwards.
    private mutating func answers(for length: Duration, _ change: (inout Behaviour) -> Void) {
        let simulator = trial.stage.simulator
        simulator.behave(change)
        later(length) {
            simulator.behave {
                $0.script.failures = []
                ($0.streamLimit, $0.tokenStreamLimit, $0.isFrozen) = (1000, 1, false)
            }
        }
    }

    /// Sends a command, unless Redis is stopped; the connection may have broken.
    private func sendToRedis(_ words: [String]) {
        if redisToRestart != nil || (try? trial.stage.command(words)) != nil { return }
        try? trial.stage.reconnect()
        _ = try? trial.stage.command(words)
    }
}
