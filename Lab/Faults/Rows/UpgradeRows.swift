import Glibc
import Harness
import Platform
internal import RedisQueue

/// Upgrades from 0.1.0, which kept the jobs in flight of a worker in a hash.
extension Fault {
    static let upgradeRows = [upgraded, rollingUpgrade]

    /// Workers of the first version died while they held jobs. The row writes the keys as that version left them.
    private static let upgraded = Fault(
        number: 49, name: "upgrade", title: "jobs held by dead workers of 0.1.0", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        try trial.open(settings: ["redis_lease": "1"])
        let keys = trial.stage.keys
        try trial.injectAgain(10) { turn in
            try trial.queue(100)
            // Half of the jobs were claimed, some had been in a crash before, and some workers left no details.
            let worker = "00000000000000\(10 + turn)-\(1000 + turn)-77-0"
            let jobs = try trial.stage.command(["LRANGE", keys.list, "0", "49"]).items?.compactMap(\.text) ?? []
            try trial.stage.command(["LTRIM", keys.list, "50", "-1"])
            let fields = jobs.enumerated().flatMap { ["\($0.offset + 1)" + ["", ":1", ":2"][turn % 3], $0.element] }
            try trial.stage.command(["HSET", keys.inflight(worker)] + fields)
            try trial.stage.command(["ZADD", keys.workers, String(trial.draw(1...1000)), worker])
            try trial.stage.command(["HINCRBY", keys.stats, "claimed", "50"])
            if turn % 2 == 0 {
                let details = ["host", "before", "pid", "1", "version", "0.1.0", "started", "1", "number", "1", "settled", "0"]
                try trial.stage.command(["HSET", keys.worker(worker)] + details)
            }
            trial.allowTwice(50)
        }
        try trial.start()
        try trial.await("all are settled") { try trial.status().isDrained && trial.status().workers.count == 1 }
        trial.afterwards = { status in
            if status.counter(.recovered) != 50 * trial.times { trial.fail("\(status.counter(.recovered)) jobs recovered") }
        }
    }

    /// Daemons of 0.1.0 and of this version claim the jobs of one list.
    private static let rollingUpgrade = Fault(
        number: 74, name: "rolling-upgrade", title: "a rolling upgrade from 0.1.0, kill -9 of both versions",
        rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        guard let older = trial.older else {
            throw TrialNotPossibleError(description: "it needs a daemon of 0.1.0 (scripts/older-daemon, or --older PATH)")
        }
        try trial.open(simulator: ["--latency", "20ms..60ms"])
        try trial.produce()
        var upgrade = RollingUpgrade(trial, from: older)
        for _ in 1...(trial.scale == .full ? 10 : 1) { try upgrade.roll() }
    }
}

/// Replaces two daemons of 0.1.0 by two of this version under load, one after the other, and goes back for the next round.
///
/// Some rounds have the default lease, and the process id reveals a death. In the others each daemon has a machine id of its own,
/// so that only a lease of 1 s or 3 s reveals it.
struct RollingUpgrade {
    /// A worker whose daemon was killed.
    private struct Victim {
        var name: String
        /// The jobs that it held.
        var held: Int
        /// How many of them are in the hash of 0.1.0.
        var hashed: Int
        /// The counter `recovered` before another worker takes them over.
        var recoveredBefore: Int
        var killedAt: Instant
    }

    private let trial: Trial
    private let older: String
    private var round = 0
    private var started = 0
    /// The lease in seconds, if only the lease reveals a death.
    private var lease: Int?
    /// The daemons of this version at the end of the last round.
    private var present: [DaemonProcess] = []

    /// - Parameter older: the path of a daemon of 0.1.0.
    init(_ trial: Trial, from older: String) { (self.trial, self.older) = (trial, older) }

    /// Runs one round.
    mutating func roll() throws {
        let old = try startOld()
        _ = try trial.awaitBusy(of: old)
        trial.pause(0...300)
        var new: DaemonProcess!
        try trial.inject {
            // In turn: an orderly stop, or a kill after which any daemon may take over the hash.
            if round % 2 == 1 { try trial.terminate(old[0]) } else { _ = try kill(old[0]) }
            new = try start()
        }
        _ = try trial.awaitBusy(of: [old[1], new])
        try trial.inject { new = try replace(new) }
        _ = try trial.awaitBusy(of: [old[1], new])
        try trial.inject {
            let victim = try kill(old[1])
            if victim.hashed != victim.held { trial.fail("\(victim.hashed) of \(victim.held) jobs of 0.1.0 are in its hash") }
            try awaitTakeover(of: victim)
            present = [new, try start()]
        }
        _ = try trial.awaitBusy(of: present)
    }

    /// Starts two daemons of 0.1.0, in place of the daemons of the last round, which stop in order.
    private mutating func startOld() throws -> [DaemonProcess] {
        round += 1
        lease = [3, nil, 1][round % 3]
        var old: [DaemonProcess] = []
        if present.isEmpty { return try startTwoOld() }
        try trial.inject {
            for daemon in present { try trial.terminate(daemon) }
            old = try startTwoOld()
        }
        return old
    }

    private mutating func startTwoOld() throws -> [DaemonProcess] {
        try trial.write(settings: ["redis_lease": lease.map { String($0) }])
        return [try start(older), try start(older)]
    }

    private mutating func start(_ program: String? = nil) throws -> DaemonProcess {
        started += 1
        let name = (program == nil ? "new-" : "old-") + String(started)
        return try trial.start(name, program: program, under: lease == nil ? [] : trial.elsewhere(started))
    }

    /// Kills a daemon of this version beside one of 0.1.0, and starts the next one, which takes over its lists: 0.1.0 removes the
    /// dead worker without them, before or after the start.
    private mutating func replace(_ daemon: DaemonProcess) throws -> DaemonProcess {
        let victim = try kill(daemon)
        if victim.hashed != 0 { trial.fail("\(victim.hashed) jobs of this version are in a hash") }
        if trial.draw(0...1) == 0 {
            try trial.await("0.1.0 removes the dead worker") { try trial.status().workers.count == 1 }
            if try isReleased(victim) { trial.fail("0.1.0 removed the jobs of this version") }
        }
        let next = try start()
        try awaitTakeover(of: victim)
        return next
    }

    /// Kills a daemon while it holds jobs, and allows these jobs to be delivered twice.
    private func kill(_ daemon: DaemonProcess) throws -> Victim {
        var worker: QueueStatus.Worker!
        // Stopped, so that Redis has all of its jobs in flight, and no others follow.
        try trial.await("it holds jobs") {
            daemon.process.kill(SIGSTOP)
            worker = try trial.workers(of: daemon).first { $0.inFlight > 0 }
            if worker == nil { daemon.process.kill(SIGCONT) }
            return worker != nil
        }
        trial.allowTwice(worker.inFlight)
        let hashed = Int(try trial.stage.command("HLEN", trial.stage.keys.inflight(worker.name)).integer ?? 0)
        let recovered = try trial.status().counter(.recovered)
        let victim = Victim(
            name: worker.name, held: worker.inFlight, hashed: hashed, recoveredBefore: recovered, killedAt: .now)
        // APNs accepts some of its requests, all or none.
        trial.pause(0...80)
        trial.kill(daemon)
        return victim
    }

    private func isReleased(_ victim: Victim) throws -> Bool {
        let keys = trial.stage.keys
        return try trial.stage.command("EXISTS", keys.inflight(victim.name), keys.chunks(victim.name)).integer == 0
    }

    /// Waits until another worker has all jobs of a killed one, not before the lease ended.
    private func awaitTakeover(of victim: Victim) throws {
        try trial.await("another daemon takes over the jobs of \(victim.name)") { try isReleased(victim) }
        let took = .now - victim.killedAt
        // The lease starts at the last heartbeat, which may be earlier than the kill.
        if let lease, took < .seconds(lease) / 2 {
            trial.fail("taken over \(took) after the kill, long before the end of the lease")
        }
        let recovered = try trial.status().counter(.recovered) - victim.recoveredBefore
        if recovered < victim.held { trial.fail("\(recovered) of \(victim.held) jobs of a killed daemon were taken over") }
        // A job in three crashes becomes a dead letter: its jobs are claimed before the next kill.
        try trial.await("the recovered jobs are claimed") { try trial.status().recovered == 0 }
    }
}
