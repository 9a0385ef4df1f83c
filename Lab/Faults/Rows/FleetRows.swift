import APNSSimulator
import Glibc
import Harness
import Platform
internal import RedisQueue

/// Faults with many daemons of one key, and with many device tokens in one job.
extension Fault {
    static let fleetRows = [fleet, apart, manyDevices]

    /// APNs accepts no second provider token within 20 minutes. The row kills some daemons at their start: they may have just
    /// signed the token, or hold the lock that the others wait for.
    private static let fleet = Fault(
        number: 55, name: "fleet", title: "a fleet with one key, some killed at the start", rule: .onlyWhatWasInFlight,
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
            try trial.inject { fleet.replace(victim, by: try trial.killAndRestart(fleet.daemons[victim], "daemon\(victim)")) }
            // A job in three crashes becomes a dead letter: the jobs of this daemon are sent before the next kill.
            try trial.await("another daemon takes over its jobs") {
                let status = try trial.status()
                return status.recovered == 0 && status.workers.count == fleet.daemons.count
            }
            try trial.awaitSent(try trial.stage.sent() + 100)
        } while kills < trial.times(20) || .now - start < trial.duration ?? .zero
        if !fleet.isOpen(within: .seconds(60)) { trial.fail("some daemons never had a session") }
        trial.afterwards = { status in
            let seen = trial.stage.simulator.totals
            let tokens = seen.providerTokens.values.reduce(0, +)
            let most = 1 + Int((.now - start) / .seconds(1200))
            if tokens > most { trial.fail("APNs saw \(tokens) provider tokens, at most \(most) are allowed") }
            if !seen.answers.isEmpty { trial.fail("APNs refused pushes: \(seen.answers)") }
            if fleet.unshared > 0 { trial.fail("\(fleet.unshared) daemons could not share the provider token") }
            if status.dead > 0 { trial.fail("\(status.dead) dead letters") }
        }
    }

    /// Each daemon has a machine and a state folder of its own, so that only Redis can share the provider token.
    private static let apart = Fault(
        number: 55, name: "fleet-apart", title: "a fleet on many machines, without a common folder", rule: .nothingTwice
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15), settings: ["pool_size": "1"])
        try trial.produce(perSecond: 500)
        let fleet = try Fleet(trial.scale == .full ? 50 : 6) { number in
            let folder = ["env", "STATE_DIRECTORY=\(trial.stage.folder.file("state\(number)"))"]
            return try trial.start("daemon\(number)", under: trial.elsewhere(number) + folder)
        }
        trial.count(fleet.daemons.count)
        if !fleet.isOpen(within: .seconds(60)) { trial.fail("some daemons never had a session") }
        try trial.awaitSent(try trial.stage.sent() + 100 * fleet.daemons.count, atMost: .seconds(120))
        trial.afterwards = { _ in
            let tokens = trial.stage.simulator.totals.providerTokens.values.reduce(0, +)
            if tokens != 1 || fleet.minted != 1 { trial.fail("APNs saw \(tokens) provider tokens, \(fleet.minted) were signed") }
        }
    }

    /// The daemon splits a job into jobs of 250 tokens and these into jobs of one, each step in one transaction. So a kill
    /// repeats only the pushes in flight, and never loses a part of a job.
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
            try trial.inject { daemon = try trial.killAndRestart(daemon) }
            // As above: a job in each of five kills would become a dead letter that APNs did not call dead.
            try trial.await("another daemon takes over its jobs") { try trial.status().recovered == 0 }
            try trial.awaitSent(try trial.stage.sent() + 100)
        }
        try trial.awaitDrained(atMost: .seconds(300))
        trial.afterwards = { _ in
            let refused = Set(trial.stage.ledger.entries.lazy.filter { $0.status == 410 }.map(\.token))
            let (dead, reasons) = try trial.stage.deadLetterCounts()
            if Set(dead) != refused || dead.count != refused.count || refused.isEmpty {
                trial.fail("\(dead.count) dead letters (\(reasons)) for \(refused.count) tokens that APNs called dead")
            }
        }
    }
}

extension Trial {
    /// Starts the daemons within a minute, with pauses, and kills one in four of them at once.
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
}
