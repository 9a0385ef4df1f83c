import APNSSimulator
import Harness
import Platform
internal import RedisQueue

/// Observes a run until all jobs are settled: the errors, the memory, and that the daemon never stops sending.
struct ErrorWatch {
    /// The longest time without a response. The last suspect responses are settled after 60 s unless another push is accepted.
    private static let mostStill = Duration.seconds(90)
    /// KB that the memory may grow from the first tenth of the errors to the last. The daemon remembers the last 10,000 device
    /// tokens that had to wait, which takes 6 MB (measured).
    private static let mostGrowth = 8 << 10
    /// KB from the sixth tenth of a full run to the last, when that memory is full: further growth is a leak. This is 17 bytes
    /// for each error.
    private static let mostLateGrowth = 1 << 10

    private let trial: Trial
    private(set) var errors = 0
    private var memory: [(errors: Int, bytes: Int)] = []

    init(_ trial: Trial, _ daemon: DaemonProcess) throws {
        self.trial = trial
        var last = (requests: 0, at: Instant.now)
        var (errors, memory) = (0, memory)
        try trial.await("all are settled", atMost: .seconds(300)) {
            let seen = trial.stage.simulator.totals
            errors = seen.answers.values.reduce(0, +)
            memory.append((errors, daemon.residentBytes))
            if seen.requests > last.requests { last = (seen.requests, .now) }
            if .now - last.at > Self.mostStill {
                throw TrialError(description: "no response for \(Self.mostStill):\n" + trial.logs)
            }
            return try trial.status().isDrained
        }
        (self.errors, self.memory) = (errors, memory)
    }

    func judge(leastErrors: Int) {
        if errors < leastErrors { trial.fail("\(errors) errors; expected at least \(leastErrors)") }
        var tenths = [Int](repeating: 0, count: 10)
        for sample in memory {
            let tenth = min(9, sample.errors * 10 / max(1, errors))
            tenths[tenth] = max(tenths[tenth], sample.bytes >> 10)
        }
        let isLeaking = trial.scale == .full && tenths[9] - tenths[5] > Self.mostLateGrowth
        if isLeaking || tenths[9] - tenths[0] > Self.mostGrowth { trial.fail("memory in KB, by tenths of the errors: \(tenths)") }
    }
}
