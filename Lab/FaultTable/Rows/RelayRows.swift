import Glibc
import Harness
internal import RedisQueue
import SystemTime

/// Faults of the delivery of results.
extension Fault {
    static let relayRows = [relay]

    /// The daemon writes a result in the step that settles the job, and a relay acknowledges it after the response of the
    /// receiver. So each kill can repeat the batches in flight, and loses no result.
    private static let relay = Fault(
        number: 73, name: "relay", title: "kill -9 of a daemon, a relay or the receiver of results", rule: .onlyWhatWasInFlight
    ) { trial in
        let receiver = ResultReceiver()
        try trial.open(settings: [
            "redis_results_key": "\"\(ResultReceiver.stream)\"", "redis_lease": "2", "relay_url": "\"\(try receiver.start())\"",
        ])
        try trial.produce(perSecond: 1000)
        var daemon = try trial.start()
        var relays = try (0..<2).map { _ in try trial.startRelay() }
        for _ in 0..<trial.times(60) {
            trial.pause(0...400)
            try trial.inject {
                switch trial.draw(0...2) {
                case 0: daemon = try trial.killAndRestart(daemon)
                case 1:
                    let killed = relays.remove(at: trial.draw(0...1))
                    killed.kill(SIGKILL)
                    _ = killed.wait(atMost: .seconds(30))
                    relays.append(try trial.startRelay())
                    receiver.allowRepeats(of: 1)
                default:
                    receiver.kill()
                    trial.pause(0...200)
                    _ = try receiver.start()
                    receiver.allowRepeats(of: relays.count)
                }
            }
            // A job in three crashes becomes a dead letter: its jobs are sent before the next kill.
            try trial.await("another daemon takes over its jobs") { try trial.status().recovered == 0 }
        }
        trial.afterwards = { status in
            try trial.await("the receiver has every result", atMost: .seconds(60)) {
                try receiver.hasAll(in: trial.stage)
            }
            for relay in relays {
                relay.kill(SIGTERM)
                if relay.wait(atMost: .seconds(30))?.status != 0 { trial.fail("a relay did not exit with 0") }
            }
            let settled = status.counter(.sent) + status.counter(.dead) + status.counter(.expired)
            if receiver.results.count != settled { trial.fail("\(receiver.results.count) results for \(settled) settled pushes") }
            if receiver.repeats > receiver.mostRepeats {
                trial.fail("\(receiver.repeats) results arrived twice, at most \(receiver.mostRepeats) are allowed")
            }
            try trial.stage.command("DEL", ResultReceiver.stream)
        }
    }
}

extension Trial {
    fileprivate func startRelay() throws -> ChildProcess {
        let log = ChildProcess.Output.file(stage.folder.file("relay.log"))
        return try ChildProcess(
            BuiltProducts.path("gaplessd"), ["relay", stage.folder.file("settings.json")], standardOutput: log, standardError: log
        )
    }
}
