import Glibc
import Harness
internal import RedisQueue

/// Faults of the daemon: SIGSTOP for a while, alone or with all other processes.
extension Fault {
    static let frozenRows = [frozenLong, frozenShort, suspended]

    private static let frozenLong = Fault(
        number: 4, name: "freeze-long", title: "SIGSTOP longer than the lease of 2 s", rule: .onlyWhatWasInFlight
    ) { trial in
        try trial.open(simulator: ["--latency", "20ms..60ms"], settings: ["redis_lease": "2"])
        let daemons = try (0...1).map { try trial.start("daemon\($0)") }
        try trial.produce()
        for _ in 1...trial.times(10) {
            let victim = daemons[try trial.awaitBusy(of: daemons)]
            try trial.inject {
                let fenced = try trial.status().counter(.fenced)
                victim.process.kill(SIGSTOP)
                trial.allowTwice(try trial.held(by: victim))
                try trial.await("the other daemon takes over its jobs") { try trial.status().workers.count == 1 }
                trial.pause(0...300)
                victim.process.kill(SIGCONT)
                try trial.await("the daemon registers again") { try trial.status().counter(.fenced) > fenced }
            }
        }
    }

    private static let frozenShort = Fault(
        number: 5, name: "freeze-short", title: "SIGSTOP shorter than the lease of 3 s", rule: .nothingTwice
    ) { trial in
        try trial.open(simulator: ["--latency", "20ms..60ms"], settings: ["redis_lease": "3"])
        let daemons = try (0...1).map { try trial.start("daemon\($0)") }
        try trial.produce()
        for _ in 1...trial.times(10) {
            let victim = daemons[try trial.awaitBusy(of: daemons)]
            try trial.inject {
                victim.process.kill(SIGSTOP)
                trial.pause(200...1800)
                victim.process.kill(SIGCONT)
            }
        }
        trial.afterwards = { status in
            let taken = status.counter(.recovered) + status.counter(.fenced)
            if taken > 0 { trial.fail("\(taken) jobs or workers were taken over, although no daemon stopped for a lease") }
        }
    }

    /// All processes stop for longer than a lease and continue in any order, as on a suspended laptop.
    private static let suspended = Fault(
        number: 45, name: "suspend", title: "SIGSTOP of all processes, longer than the lease", rule: .onlyWhatWasInFlight
    ) { trial in
        try trial.open(simulator: ["--latency", "20ms..60ms"], settings: ["redis_lease": "1"])
        let daemons = try (0...1).map { try trial.start("daemon\($0)") }
        guard let simulator = trial.stage.service as? SimulatorProcess else { return }
        try trial.produce()
        for _ in 1...trial.times(10) {
            _ = try trial.awaitBusy(of: daemons)
            try trial.inject {
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
}
