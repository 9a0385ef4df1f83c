import APNSSimulator
import Glibc
import Harness
internal import RedisQueue

/// Faults of the daemon: SIGSTOP for a while, alone or with all other processes.
extension Fault {
    static let frozenRows = [frozenLong, frozenQueue, frozenShort, suspended]

    private static let frozenLong = Fault(
        number: 4, name: "freeze-long", title: "SIGSTOP longer than the lease of 2 s", rule: .onlyWhatWasInFlight,
        longTurn: stopped
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
        for round in 1...trial.times(2) {
            let victim = try trial.start("victim-\(round)")
            // Before the first acceptance at most 20 jobs are claimed.
            try trial.queue(1)
            try trial.await("the first is settled") { try trial.status().isDrained }
            try trial.queue(5000)
            try trial.await("the streams are full, and jobs wait") { try trial.held(by: victim) > 2200 }
            try trial.inject {
                victim.process.kill(SIGSTOP)
                let fenced = try trial.status().counter(.fenced)
                // Two sessions with 1,000 streams each.
                trial.allowTwice(2000)
                let heir = try trial.start("heir-\(round)")
                try trial.await("the other daemon delivers all", atMost: .seconds(60)) { try trial.status().isDrained }
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
    }

    private static let stopped = "a stop of the process may fall into a turn"

    private static let frozenShort = Fault(
        number: 5, name: "freeze-short", title: "SIGSTOP shorter than the lease of 3 s", rule: .nothingTwice, longTurn: stopped
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
        number: 45, name: "suspend", title: "SIGSTOP of all processes, longer than the lease", rule: .onlyWhatWasInFlight,
        longTurn: stopped
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
