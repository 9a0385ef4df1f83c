import APNSSimulator
import Clocks
import Glibc
import Harness
import RedisQueue

/// How long a job takes: on an idle daemon, and under a steady load; and what an idle daemon costs.
///
/// Nothing is pinned here: producer, Redis, daemon and simulator share the processors as the kernel likes.
struct LatencyBench {
    var idleJobs = 500
    var idleWatch = Duration.seconds(5)
    var loadSeconds = 3.0

    /// Prints lines; returns the parts of the JSON.
    func measure() throws -> [String] {
        let stage = try LatencyStage()
        say("from start to the first push at the server: \(milliseconds(stage.startToFirstPush)) ms")
        let quiet = try measureQuiet(stage)
        let idle = try measureIdle(stage)
        let load = try measureLoad()
        return ["  \"start_to_first_push_ms\": \(milliseconds(stage.startToFirstPush))", quiet, idle, load]
    }

    /// A daemon that has nothing to do.
    private func measureQuiet(_ stage: LatencyStage) throws -> String {
        // The first beats and the lease scan after the start are over by then.
        _ = waitUntil(atMost: .seconds(1)) { false }
        let (commands, cpu, start) = (try stage.commands(), stage.daemon.preciseProcessorTime, Instant.now)
        _ = waitUntil(atMost: idleWatch) { false }
        let seconds = (.now - start) / .seconds(1)
        let perSecond = Double(try stage.commands() - commands - 1) / seconds
        let percent = (stage.daemon.preciseProcessorTime - cpu) / .seconds(1) / seconds * 100
        let resident = stage.daemon.residentBytes
        say(
            "idle: \(decimal(perSecond, 1)) Redis commands/s, \(decimal(percent, 2)) % of one processor, "
                + "\(megabytes(resident)) MB resident")
        return "  \"idle\": {\"redis_commands_per_second\": \(decimal(perSecond, 2)), \"cpu_percent\": \(decimal(percent, 3)), "
            + "\"resident_bytes\": \(resident)}"
    }

    /// One job at a time, each onto an empty queue, by turns with one for a client that does nothing but BLPOP: what two sleeping
    /// processes cost on this machine, of the four that a push has to wake.
    private func measureIdle(_ stage: LatencyStage) throws -> String {
        let popper = try ListPopper(stage.stage.redis)
        defer { popper.stop() }
        var (times, yardstick) = (Figures(), Figures())
        for number in 1...idleJobs {
            // Off any beat of the daemon's own.
            let pause = { _ = waitUntil(atMost: .microseconds(Int.random(in: 3000...13_000))) { false } }
            pause()
            let start = Instant.now
            try stage.stage.push([BenchJob.text(number)])
            times.values.append((try stage.arrival(of: deviceToken(number)) - start) / .microseconds(1))
            pause()
            yardstick.values.append(
                try popper.time { try stage.stage.push([BenchJob.text(number)], to: ListPopper.list) } / .microseconds(1))
        }
        say("idle, RPUSH to BLPOP's answer at a bare client: \(line(yardstick)) us")
        say("idle, RPUSH to request at the server: \(line(times)) us (\(idleJobs) jobs)")
        return "  \"idle_blpop_us\": \(json(yardstick)),\n  \"idle_latency_us\": \(json(times))"
    }

    /// Jobs at shares of the top rate. Each is timed from the moment it was due, so that a stall counts for all that wait in it.
    private func measureLoad() throws -> String {
        let top = try topRate()
        say("top rate with producer and server on the same processors: \(decimal(top, 0)) pushes/s")
        var parts: [String] = []
        for share in [0.1, 0.5, 0.9] {
            let times = try measure(rate: top * share)
            let name = "\(Int(share * 100)) % of it"
            say("\(padRight(name, 10)) due to request at the server: \(line(times)) us (\(times.values.count) jobs)")
            parts.append("    {\"share\": \(share), \"rate\": \(decimal(top * share, 0)), \"latency_us\": \(json(times))}")
        }
        return "  \"top_rate\": \(decimal(top, 0)),\n  \"load_latency\": [\n" + parts.joined(separator: ",\n") + "\n  ]"
    }

    private func topRate() throws -> Double {
        let stage = try LatencyStage()
        let count = 50_000
        let start = Instant.now
        for first in stride(from: 1, through: count, by: 500) {
            try stage.stage.push((first..<first + 500).map { BenchJob.text($0) })
        }
        _ = try stage.arrival(of: deviceToken(count))
        return Double(count) / ((.now - start) / .seconds(1))
    }

    private func measure(rate: Double) throws -> Figures {
        let stage = try LatencyStage()
        let tick = Duration.milliseconds(2)
        let perTick = max(1, Int(rate * (tick / .seconds(1))))
        let ticks = Int(loadSeconds / (tick / .seconds(1)))
        let start = Instant.now
        for number in 0..<ticks {
            let due = start + tick * number
            _ = waitUntil(atMost: due - .now, every: .microseconds(100)) { false }
            let first = 1 + number * perTick
            try stage.stage.push((first..<first + perTick).map { BenchJob.text($0) })
        }
        _ = try stage.arrival(of: deviceToken(ticks * perTick))
        guard waitUntil(atMost: .seconds(30), { stage.stage.simulator.totals.accepted > ticks * perTick }) else {
            throw LabError(description: "not all arrived")
        }
        var numbers: [String: Int] = [:]
        for number in 1...ticks * perTick { numbers[deviceToken(number)] = number }
        var times = Figures()
        for entry in stage.stage.simulator.ledger.entries {
            guard let number = numbers[entry.token] else { continue }
            times.values.append((entry.time - (start + tick * ((number - 1) / perTick))) / .microseconds(1))
        }
        return times
    }

    private func line(_ times: Figures) -> String {
        [("p50", 50), ("p99", 99), ("p99.9", 99.9)].map { "\($0.0) \(decimal(times.percentile($0.1), 0))" }.joined(
            separator: ", ")
    }

    private func json(_ times: Figures) -> String {
        "{\"p50\": \(decimal(times.percentile(50), 0)), \"p99\": \(decimal(times.percentile(99), 0)), "
            + "\"p999\": \(decimal(times.percentile(99.9), 0))}"
    }

    private func milliseconds(_ time: Duration) -> String { decimal(time / .milliseconds(1), 1) }
}

extension DaemonProcess {
    var preciseProcessorTime: Duration { gapless_lab.preciseProcessorTime(of: process.pid) }
}

/// User and system time so far, finer than the kernel's ticks: the sum over its threads of /proc/PID/task/TID/schedstat.
func preciseProcessorTime(of pid: CInt) -> Duration {
    var total = 0
    for thread in folderEntries("/proc/\(pid)/task") {
        let first = File.read("/proc/\(pid)/task/\(thread)/schedstat").split(separator: " ").first
        total += first.flatMap { Int($0) } ?? 0
    }
    return .nanoseconds(total)
}
