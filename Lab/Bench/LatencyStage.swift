import APNSSimulator
import Harness
import Platform
import RedisQueue

/// A stage with one daemon. The simulator runs in this process, so that its ledger uses the same clock as the producer.
final class LatencyStage {
    let stage: Stage
    let daemon: DaemonProcess
    /// The time from the start of the process until its first push reached the simulator.
    private(set) var startToFirstPush = Duration.zero

    init(_ settings: [String: String] = [:]) throws {
        stage = try Stage(on: RedisServer()) { folder in
            try HostedSimulator(folder: folder) {
                $0.ledgerDetail = .requests(keepsBodies: false)
                $0.behaviour.tokenStreamLimit = 1000
            }
        }
        try stage.push(BenchJob.text(0))
        let start = Instant.now
        daemon = try stage.start(stage.write(settings))
        startToFirstPush = try arrival(of: deviceToken(0)) - start
    }

    /// Pushes one job. Returns the microseconds until its request was at the server.
    func latency(of number: Int) throws -> Double {
        let start = Instant.now
        try stage.push([BenchJob.text(number)])
        return (try arrival(of: deviceToken(number)) - start) / .microseconds(1)
    }

    /// Waits for the first request for a token, and returns its time.
    func arrival(of token: String) throws -> Instant {
        guard waitUntil({ !stage.simulator.ledger.requests(for: token).isEmpty }) else {
            throw LabError(description: "no push of \(token):\n" + daemon.standardError)
        }
        return stage.simulator.ledger.requests(for: token)[0].time
    }

    /// The number of commands that Redis has executed so far, including this one.
    func commands() throws -> Int {
        let text = try stage.command("INFO", "stats").text ?? ""
        let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("total_commands_processed:") }
        return line.flatMap { $0.split(separator: ":").last }.flatMap { Int($0) } ?? 0
    }
}
