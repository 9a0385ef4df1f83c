import Glibc
import Harness
internal import RedisQueue

/// Faults of the daemon: its clock, and jobs that an earlier version left.
extension Fault {
    static let clockRows = [jumpingClock, upgraded]

    /// Only the time of day jumps; the monotonic clocks stay unchanged.
    private static let jumpingClock = Fault(
        number: 43, name: "clock", title: "the daemon's clock jumps a day, both ways", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "5ms", "--fail", "503:1%"])
        let clock = try ShiftedClock()
        try trial.start(under: ["env"] + clock.environment.map { "\($0.key)=\($0.value)" })
        try trial.produce()
        for turn in 0..<trial.times(10) {
            try trial.awaitBusy()
            try trial.inject {
                clock.move(to: .seconds([86_400, -86_400, 0][turn % 3]))
                trial.pause(100...500)
            }
        }
        clock.move(to: .zero)
        trial.afterwards = { status in
            if status.counter(.recovered) + status.counter(.fenced) > 0 { trial.fail("a lease expired") }
            // A resend keeps the deadline of the first attempt, which has passed a day later.
            let reasons = try trial.stage.deadLetterCounts().reasons.keys.filter { $0 != "Expired" }
            if !reasons.isEmpty { trial.fail("dead letters with the reasons \(reasons)") }
        }
    }

    /// Workers of the first version died while they held jobs. The row writes the keys as that version left them.
    private static let upgraded = Fault(
        number: 49, name: "upgrade", title: "jobs held by dead workers of 0.1.0", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        try trial.open(settings: ["redis_lease": "1"])
        let keys = trial.stage.keys
        for turn in 0..<trial.times(10) {
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
            trial.count(1)
            trial.allowTwice(50)
        }
        try trial.start()
        try trial.await("all are settled") { try trial.status().isDrained && trial.status().workers.count == 1 }
        trial.afterwards = { status in
            if status.counter(.recovered) != 50 * trial.times { trial.fail("\(status.counter(.recovered)) jobs recovered") }
        }
    }
}
