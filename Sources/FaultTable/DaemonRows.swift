import Glibc
import Harness
internal import RedisQueue

/// Faults of the daemon itself.
extension Fault {
    static let daemonRows = [killed, terminated]

    private static let killed = Fault(
        number: 1, name: "kill", title: "kill -9 of the daemon under load", rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "5ms..15ms", "--fail", "503:1%"])
        var daemon = try trial.start()
        trial.produce()
        for _ in 1...trial.times(50) {
            trial.pause(50...800)
            try trial.strike {
                trial.kill(daemon)
                trial.allowTwice(try trial.stage.status().inFlight)
                daemon = try trial.start()
            }
        }
    }

    private static let terminated = Fault(
        number: 7, name: "drain", title: "SIGTERM with jobs on the wire", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "200ms"])
        var daemon = try trial.start()
        trial.produce()
        for _ in 1...trial.times(10) {
            try trial.await("a worker has jobs") { try trial.stage.status().inFlight > 100 }
            trial.pause(10...100)
            try trial.strike {
                trial.forget(daemon)
                let exit = daemon.stop()
                if exit?.status != 0 { trial.fail("gaplessd exited with \(String(describing: exit))") }
                let status = try trial.stage.status()
                if status.inFlight != 0 || !status.workers.isEmpty { trial.fail("left behind: \(status)") }
                daemon = try trial.start()
            }
        }
    }
}
