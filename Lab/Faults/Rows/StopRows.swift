import APNSSimulator
import Glibc
import Harness
import Platform
internal import RedisQueue

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
        for _ in 1...trial.times(10) {
            try trial.queue(trial.scale == .full ? 6000 : 2500)
            try trial.await("1,000 are in flight") { try trial.status().inFlight > 1000 }
            trial.pause(10...200)
            try trial.inject {
                try trial.terminate(daemon)
                try judgeOrder(trial)
                daemon = try trial.start()
            }
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
        var daemon = try trial.start()
        try trial.produce()
        for _ in 1...trial.times(10) {
            try silence(trial) {
                let released = try trial.status().counter(.released)
                try trial.terminate(daemon)
                // The simulator accepts the requests in its sockets when it continues.
                trial.allowTwice(try trial.status().counter(.released) - released)
                daemon = try trial.start()
            }
        }
    }

    private static let terminatedThenKilled = Fault(
        number: 9, name: "drain-kill", title: "SIGTERM, then SIGKILL within 1 s", rule: .onlyWhatWasInFlight
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        var daemon = try trial.start()
        try trial.produce()
        for _ in 1...trial.times(10) {
            try silence(trial) {
                daemon.process.kill(SIGTERM)
                trial.pause(0...1000)
                // The daemon may have had no session yet.
                if let exit = daemon.process.poll(), exit.status != 0 { trial.fail("gaplessd exited with \(exit)") }
                daemon = try trial.killAndRestart(daemon)
            }
        }
    }

    /// Injects the fault while APNs neither reads nor responds, and at least 100 jobs wait.
    private static func silence(_ trial: Trial, _ body: () throws -> Void) throws {
        try trial.awaitBusy()
        trial.pause(10...200)
        trial.stage.simulator.behave { $0.isFrozen = true }
        try trial.await("100 jobs wait for a response") { try trial.status().inFlight > 100 }
        try trial.inject {
            try body()
            trial.stage.simulator.behave { $0.isFrozen = false }
        }
    }
}
