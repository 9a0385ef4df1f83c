import APNSSimulator
import Harness
internal import RedisQueue

/// Jobs that are huge, or that APNs refuses for a reason of their own, between ordinary ones.
extension Fault {
    static let hugeJobRows = [hugeJobs, ownRefusals, numbers]

    private static let hugeJobs = Fault(
        number: 46, name: "huge-jobs", title: "jobs of 5 MB for 250 devices, of 30 MB, 100 MB of 0x01", rule: .nothingTwice
    ) { trial in
        try trial.open(settings: ["retry_delays": "[1]"])
        // A job of 100 MB exists twice while its bytes go back to Redis.
        trial.memoryCap = 400 << 20
        try trial.start()
        try trial.queue(1)
        try trial.awaitSent(1)
        let filler = String(repeating: "y", count: 5_000_000)
        for turn in 0..<trial.times(10) {
            try trial.queue(200)
            switch turn % 3 {
            case 0: try trial.queueTogether(250, extra: filler)
            // Larger than a job may be.
            case 1: try trial.stage.push(Trial.large(1_000_000 + turn, bytes: 30_000_000))
            default: try trial.stage.push(bytes: [UInt8](repeating: 1, count: trial.scale == .full ? 100_000_000 : 10_000_000))
            }
            try trial.queue(200)
            trial.count(1)
            try trial.await("all are settled", atMost: .seconds(120)) { try trial.status().isDrained }
        }
        let letters = (0..<trial.times(10)).count { $0 % 3 > 0 }
        trial.afterwards = { status in
            if status.dead != letters { trial.fail("\(status.dead) dead letters instead of \(letters)") }
        }
        // The jobs in them are none of the trial.
        trial.countsDeadLettersOnly = true
    }

    /// Numbers that no counter can have.
    private static let strange = [
        "9223372036854775807", "-9223372036854775808", "99999999999999999999", "-1", "1e400", "nan", "0x10", "",
        "9223372036854775806",
    ]

    /// The counters of Redis, and the connection number of the worker. The row restores both: with such a connection number the
    /// daemon cannot register.
    private static let numbers = Fault(
        number: 71, name: "numbers", title: "numbers out of range in the counters and the worker's hash", rule: .nothingTwice
    ) { trial in
        let port = FreePort.pick()
        try trial.open(settings: ["metrics_listen": "\"127.0.0.1:\(port)\""])
        let (daemon, keys) = (try trial.start(), trial.stage.keys)
        for _ in 1...trial.times(10) {
            try trial.inject {
                try trial.queue(100)
                try trial.await("all are settled") { try trial.status().isDrained }
                let fields = Counter.allCases.map(\.rawValue)
                let saved = try fields.map { try trial.stage.command("HGET", keys.stats, $0).text ?? "0" }
                for _ in 1...5 {
                    for field in fields {
                        try trial.stage.command("HSET", keys.stats, field, strange.randomElement(using: &trial.random)!)
                    }
                    trial.noteTurn(port: port)
                    // The endpoint reads Redis at most once a second.
                    trial.pause(.milliseconds(300))
                }
                try trial.queue(100)
                try trial.await("all are settled") { try trial.status().isDrained }
                for (field, value) in zip(fields, saved) { try trial.stage.command("HSET", keys.stats, field, value) }
                for field in ["claimed", "sent"] { try trial.stage.command("HINCRBY", keys.stats, field, "100") }
                try judgeNumber(trial, daemon)
            }
        }
    }

    /// Gives the connection of the daemon the highest number, cuts it, and restores the number.
    private static func judgeNumber(_ trial: Trial, _ daemon: DaemonProcess) throws {
        let worker = try trial.stage.keys.worker(trial.status().workers[0].name)
        let number = try trial.stage.command("HGET", worker, "number").text ?? ""
        try trial.stage.command("HSET", worker, "number", strange[trial.draw(0...2)])
        try trial.stage.killClients()
        trial.measureIdleness(daemon)
        try trial.stage.command("HSET", worker, "number", number)
        try trial.queue(1)
        try trial.await("the daemon works again") { try trial.status().isDrained }
    }

    /// Some jobs name a topic that APNs refuses for them alone, and some get another 403: the first are dead letters at once, the
    /// others after two strikes.
    private static let ownRefusals = Fault(
        number: 70, name: "own-403", title: "jobs with a 403 of their own between good ones", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        trial.stage.simulator.behave { behaviour in
            behaviour.script.tokenPlans = ["bad0", "bad1"].map {
                .init(prefix: $0, answers: [.status(403, "TopicMismatch")], repeatsLast: true)
            }
        }
        try trial.start()
        try trial.produce(perSecond: 500)
        try trial.awaitSent(100)
        for _ in 1...trial.times(10) {
            try trial.inject {
                let (letters, sent) = (try trial.status().dead, try trial.stage.sent())
                try trial.stage.push(#"{"token":"bad0","topic":"\#(Stage.topic)","data":{"aps":{"alert":"x"}}}"#)
                try trial.await("it is a dead letter") { try trial.status().dead > letters }
                try trial.awaitSent(sent + 100)
            }
        }
        let holds = trial.complaints("does not accept the credential")
        if holds > 0 { trial.fail("\(holds) holds because of topics that single jobs named") }
        trial.countsDeadLettersOnly = true
        if trial.scale == .small { return }
        // This one names no topic: the credential is in doubt until other jobs are accepted.
        try trial.stage.push(#"{"token":"bad1","data":{"aps":{"alert":"x"}}}"#)
        try trial.await("it is a dead letter", atMost: .seconds(120)) { try trial.status().dead == trial.times(10) + 1 }
    }
}

extension Trial {
    /// A job with an unknown key of this size.
    fileprivate static func large(_ number: Int, bytes: Int) -> String {
        let text = String(repeating: "z", count: bytes)
        return #"{"token":"\#(deviceToken(number))","identifier":\#(number),"data":{"aps":{"alert":"Hello"}},"x":"\#(text)"}"#
    }
}
