import APNSSimulator
import Clocks
import Glibc
import Harness
internal import RedisQueue

/// Many of them: processes of one key, device tokens of one job, and what is wrong with one session of several.
extension Fault {
    static let fleetRows = [fleet, manyDevices]

    /// APNs wants no second provider token within 20 minutes, whoever signed the first. Some are killed as they start, perhaps with
    /// the token just signed, or with the lock that the others wait for.
    private static let fleet = Fault(
        number: 55, name: "fleet", title: "a fleet of one key, some killed as they start", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        let start = Instant.now
        try trial.open(
            hosting: Trial.accepting(after: 5...15), settings: ["pool_size": "1", "apns_max_concurrent_streams": "50"])
        try trial.produce(perSecond: 500)
        var fleet = try trial.startFleet(trial.scale == .full ? 50 : 6)
        var kills = 0
        repeat {
            kills += 1
            trial.pause(50...500)
            let victim = trial.draw(0...fleet.daemons.count - 1)
            try trial.strike { fleet.replace(victim, by: try trial.killAndRestart(fleet.daemons[victim], "daemon\(victim)")) }
            // A job that is in three crashes becomes a dead letter, and rightly so: what this one held goes out before the next kill.
            try trial.await("its jobs are taken over") {
                let status = try trial.status()
                return status.recovered == 0 && status.workers.count == fleet.daemons.count
            }
            try trial.awaitSent(try trial.stage.sent() + 100)
        } while kills < trial.times(20) || .now - start < trial.duration ?? .zero
        if !fleet.isOpen(within: .seconds(60)) { trial.fail("some never had a session") }
        trial.afterwards = { status in
            let seen = trial.stage.simulator.totals
            let tokens = seen.providerTokens.values.reduce(0, +)
            let most = 1 + Int((.now - start) / .seconds(1200))
            if tokens > most { trial.fail("APNs saw \(tokens) provider tokens, \(most) may be") }
            if !seen.answers.isEmpty { trial.fail("APNs refused pushes: \(seen.answers)") }
            if fleet.unshared > 0 { trial.fail("\(fleet.unshared) could not share the provider token") }
            if status.dead > 0 { trial.fail("\(status.dead) dead letters") }
        }
    }

    /// A job is cut into jobs of 250 and these into jobs of one, each step at once in Redis. So a kill costs what any kill costs:
    /// the pushes in flight, and never a part of a job.
    private static let manyDevices = Fault(
        number: 56, name: "many-devices", title: "jobs for 10,000 devices each, kill -9 ten times", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        let (jobs, devices, kills) = trial.scale == .full ? (100, 10_000, 10) : (2, 10_000, 5)
        try trial.open(simulator: ["--dead", "0.1%", "--seed", String(trial.draw(1...9999))])
        for _ in 0..<jobs { try trial.queueTogether(devices) }
        var daemon = try trial.start()
        for kill in 1...kills {
            try trial.awaitSent(kill * jobs * devices / (kills + 2), atMost: .seconds(120))
            try trial.awaitBusy()
            trial.judgeMemory(of: daemon)
            try trial.strike { daemon = try trial.killAndRestart(daemon) }
            // As above: one that is there at each of five kills is rightly a suspect, and no token that APNs called dead.
            try trial.await("its jobs are taken over") { try trial.status().recovered == 0 }
            try trial.awaitSent(try trial.stage.sent() + 100)
        }
        try trial.await("all are settled", atMost: .seconds(300)) { try trial.status().isDrained }
        trial.afterwards = { _ in
            let refused = Set(trial.stage.service.ledger.entries.lazy.filter { $0.status == 410 }.map(\.token))
            let (dead, reasons) = try trial.stage.deadLetterCounts()
            if Set(dead) != refused || dead.count != refused.count || refused.isEmpty {
                trial.fail("\(dead.count) dead letters (\(reasons)) for \(refused.count) tokens that APNs called dead")
            }
        }
    }
}

extension Trial {
    /// Starts so many with pauses between them, within a minute, and kills one in four of them right away.
    fileprivate func startFleet(_ size: Int) throws -> Fleet {
        try Fleet(size) { number in
            pause(0...(scale == .full ? 800 : 200))
            var daemon = try start("daemon\(number)")
            while draw(1...4) == 1 {
                pause(0...60)
                daemon = try killAndRestart(daemon, "daemon\(number)")
                count(1)
            }
            return daemon
        }
    }

    /// Of one that is to be killed: nobody asks it afterwards.
    func judgeMemory(of daemon: DaemonProcess) {
        let peak = daemon.peakBytes
        if peak > memoryCap { fail("gaplessd had \(peak >> 20) MB resident, \(memoryCap >> 20) are allowed") }
    }
}
