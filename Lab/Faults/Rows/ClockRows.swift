import Glibc
import Harness
internal import RedisQueue

/// Faults of the daemon: its clock.
extension Fault {
    static let clockRows = [jumpingClock]

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
}
