import APNSSimulator
import Clocks
import Glibc
import Harness
internal import RedisQueue

extension Fault {
    /// Faults that overlap, for as long as it is told. What may be delivered again is what the daemons counted.
    static let everything = Fault(
        number: 50, name: "everything", title: "all at once, two daemons", rule: .onlyWhatWasInFlight
    ) { trial in
        var onslaught = try Onslaught(trial)
        try onslaught.rage(for: trial.duration ?? .seconds(trial.scale == .full ? 20 : 5))
        trial.afterwards = { trial.allowTwice($0.counter(.maybeDuplicate)) }
    }
}

/// One fault after the other out of the seed, each healed a while after it began, whatever else has begun meanwhile.
private struct Onslaught {
    enum Blow: CaseIterable {
        case kill, terminate, freeze, reload
        case cutRedis, pauseRedis, flushScripts, killRedis, tearRedis, silenceRedis, delayRedis
        case goAway, storm, refuseStreams, refuseToken, freezeAPNs, cutAPNs, loseAnswers, deadenAPNs, trickle
    }

    private let trial: Trial
    private var daemons: [DaemonProcess] = []
    private var redisToRestart: Instant?
    private var heals: [(due: Instant, body: () throws -> Void)] = []

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

    mutating func rage(for duration: Duration) throws {
        let end = Instant.now + duration
        while Instant.now < end {
            let blow = Blow.allCases.randomElement(using: &trial.random)!
            let victim = trial.draw(0...1)
            let lasts = Duration.milliseconds(trial.draw(5...1500))
            try strike(blow, victim, for: lasts)
            trial.count(1)
            trial.pause(50...600)
            try heal(until: .now)
            try supervise()
        }
        try heal(until: .now + .seconds(3600))
        try supervise()
        try trial.strike {}
        try supervise()
    }

    private mutating func heal(until instant: Instant) throws {
        let due = heals.filter { $0.due <= instant }
        heals.removeAll { $0.due <= instant }
        for heal in due { try heal.body() }
        if let server = redisToRestart, instant >= server { try restartRedis() }
    }

    /// Starts again what has ended. By itself none may end but with SIGKILL or, after SIGTERM, with 0. A SIGTERM that comes before a new
    /// process listens to signals ends it as it ends any process; it has claimed nothing then.
    private mutating func supervise() throws {
        for index in daemons.indices {
            guard let exit = daemons[index].process.poll() else { continue }
            trial.forget(daemons[index])
            let wasYoung = exit.signal == SIGTERM && !daemons[index].hasStarted
            if exit.signal != SIGKILL && exit.status != 0 && !wasYoung { trial.fail("gaplessd ended by itself: \(exit)") }
            daemons[index] = try trial.start("daemon\(index)")
        }
    }

    private mutating func restartRedis() throws {
        redisToRestart = nil
        try trial.stage.redis.restart()
        try trial.stage.reconnect()
    }

    private mutating func strike(_ blow: Blow, _ victim: Int, for lasts: Duration) throws {
        let process = daemons[victim].process
        switch blow {
        case .kill: process.kill(SIGKILL)
        case .terminate: process.kill(SIGTERM)
        case .reload: process.kill(SIGHUP)
        case .freeze:
            process.kill(SIGSTOP)
            // Now and then longer than the lease.
            later(lasts * 2) { process.kill(SIGCONT) }
        case .killRedis where redisToRestart == nil:
            trial.stage.redis.kill()
            redisToRestart = .now + lasts / 3
        case .cutRedis: tellRedis(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        case .pauseRedis: tellRedis(["CLIENT", "PAUSE", String(Int(lasts / .milliseconds(1))), "ALL"])
        case .flushScripts: tellRedis(["SCRIPT", "FLUSH"])
        case .killRedis: break
        case .tearRedis: redis(for: lasts) { ($0.tearsReply, $0.tearsRequest) = (0.02, 0.02) }
        case .silenceRedis: redis(for: lasts) { $0 = .halfOpen }
        case .delayRedis: redis(for: lasts) { $0.delay = .milliseconds(100) }
        default: strikeAPNs(blow, for: lasts)
        }
    }

    private mutating func strikeAPNs(_ blow: Blow, for lasts: Duration) {
        let proxy = trial.stage.serviceProxy
        switch blow {
        case .goAway: trial.stage.simulator.goAway()
        case .storm: answers(for: lasts / 5) { $0.script.failures = [.init(.usual(503), 1)] }
        case .refuseStreams: answers(for: lasts) { ($0.streamLimit, $0.tokenStreamLimit) = (1, 1) }
        case .freezeAPNs: answers(for: lasts) { $0.isFrozen = true }
        case .refuseToken:
            answers(for: lasts / 5) { $0.script.failures = [.init(.status(403, "InvalidProviderToken"), 1)] }
            // The operator's part, whoever runs by then.
            for daemon in daemons { later(lasts / 5) { daemon.process.kill(SIGHUP) } }
        case .cutAPNs: proxy?.cutAll()
        case .deadenAPNs: proxy?.deadenAll()
        case .loseAnswers:
            proxy?.behaviour.swallowsReplies = true
            later(lasts / 5) {
                proxy?.cutAll()
                proxy?.behaviour.swallowsReplies = false
            }
        case .trickle:
            proxy?.behaviour.isBytewise = true
            later(lasts) { proxy?.behaviour.isBytewise = false }
        default: break
        }
    }

    private mutating func later(_ wait: Duration, _ body: @escaping () throws -> Void) {
        heals.append((.now + wait, body))
    }

    private mutating func redis(for lasts: Duration, _ change: (inout FaultProxy.Behaviour) -> Void) {
        guard let proxy = trial.stage.redisProxy else { return }
        change(&proxy.behaviour)
        later(lasts) { proxy.behaviour = .init() }
    }

    /// All that such a change can have touched is put back when it ends.
    private mutating func answers(for lasts: Duration, _ change: (inout Behaviour) -> Void) {
        let simulator = trial.stage.simulator
        simulator.behave(change)
        later(lasts) {
            simulator.behave {
                $0.script.failures = []
                ($0.streamLimit, $0.tokenStreamLimit, $0.isFrozen) = (1000, 1, false)
            }
        }
    }

    /// Redis may be away just now, and our own connection may have broken with it.
    private func tellRedis(_ words: [String]) {
        if redisToRestart != nil || (try? trial.stage.command(words)) != nil { return }
        try? trial.stage.reconnect()
        _ = try? trial.stage.command(words)
    }
}
