import Harness

/// Faults of APNs and of the way to it.
extension Fault {
    static let apnsRows = [goAway]

    private static let goAway = Fault(
        number: 31, name: "goaway", title: "GOAWAY under load, last id in the middle", rule: .nothingTwice, isQuick: true
    ) { trial in
        let jobs = trial.jobs(60_000)
        try trial.open(simulator: ["--latency", "5ms", "--goaway-every", "500"])
        try trial.start()
        try trial.queue(jobs)
        try trial.await("all are settled", atMost: .seconds(120)) { try trial.stage.status().isDrained }
        trial.count(jobs / 500)
    }
}
