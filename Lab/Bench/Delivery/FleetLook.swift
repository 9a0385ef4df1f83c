import Glibc
import Harness
import Platform
import RedisQueue

/// The work of all processes up to one moment.
struct FleetLook {
    let time = Instant.now
    /// Sent jobs by daemon.
    let sent: [Int]
    let daemons: [Duration]
    let redis: Duration
    let simulator: Duration
    let processors: [ProcessorTicks]

    init(_ stage: Stage, _ fleet: [DaemonProcess]) throws {
        daemons = fleet.map(\.preciseProcessorTime)
        redis = preciseProcessorTime(of: stage.redis.process.pid)
        simulator = preciseProcessorTime(of: (stage.service as? SimulatorProcess)?.process.pid ?? 0)
        processors = ProcessorTicks.now()
        let known = fleet.map { FleetLook.reports($0).count }
        for daemon in fleet { daemon.process.kill(SIGUSR1) }
        var reports: [[Int]] = []
        guard
            waitUntil(
                every: .milliseconds(5),
                {
                    reports = fleet.map(FleetLook.reports)
                    return zip(reports, known).allSatisfy { $0.count > $1 }
                })
        else { throw LabError(description: "a daemon does not react to SIGUSR1") }
        sent = reports.compactMap(\.last)
    }

    /// Returns the number of sent jobs of each line `Counters: claimed 5, sent 3, …`.
    private static func reports(_ daemon: DaemonProcess) -> [Int] {
        daemon.standardOutput.split(separator: "\n").filter { $0.contains(" Counters: ") }.compactMap { line in
            let words = line.split { $0 == " " || $0 == "," }
            return words.firstIndex(of: "sent").flatMap { $0 + 1 < words.count ? Int(words[$0 + 1]) : nil }
        }
    }
}
