import APNSSimulator
import Glibc
import Harness
import Platform
import RedisQueue

/// Measures the latency of a job on an idle daemon and under steady load, and the cost of an idle daemon.
///
/// No process is pinned: the kernel distributes the producer, Redis, the daemon and the simulator.
struct LatencyBench {
    var idleJobs = 500
    var idleWatch = Duration.seconds(5)
    var loadSeconds = 3.0

    /// Prints lines, and returns their figures.
    func measure() throws -> [(String, JSON)] {
        let stage = try LatencyStage()
        say("from start to the first push at the server: \(milliseconds(stage.startToFirstPush)) ms")
        let quiet = try measureQuiet(stage)
        let idle = try measureIdle(stage)
        let load = try measureLoad()
        let start = ("start_to_first_push_ms", JSON.number(stage.startToFirstPush / .milliseconds(1), digits: 1))
        return [start, ("idle", quiet)] + idle + load
    }

    /// Measures a daemon without jobs.
    private func measureQuiet(_ stage: LatencyStage) throws -> JSON {
        // The first heartbeats and the lease scan are over by then.
        wait(.seconds(1))
        let (commands, cpu, start) = (try stage.commands(), stage.daemon.preciseProcessorTime, Instant.now)
        wait(idleWatch)
        let seconds = (.now - start) / .seconds(1)
        let perSecond = Double(try stage.commands() - commands - 1) / seconds
        let percent = (stage.daemon.preciseProcessorTime - cpu) / .seconds(1) / seconds * 100
        let resident = stage.daemon.residentBytes
        say(
            "idle: \(decimal(perSecond, 1)) Redis commands/s, \(decimal(percent, 2)) % of one processor, "
                + "\(megabytes(resident)) MB resident")
        return .object([
            ("redis_commands_per_second", .number(perSecond, digits: 2)), ("cpu_percent", .number(percent, digits: 3)),
            ("resident_bytes", .integer(resident)),
        ])
    }

    /// Measures one job at a time on an empty list, in turns with a daemon of at most once, whose BLPOP needs no script, and with
    /// a client that only calls BLPOP. The client shows the cost of waking two processes; a push wakes four.
    private func measureIdle(_ stage: LatencyStage) throws -> [(String, JSON)] {
        let popping = try LatencyStage(["redis_delivery": "\"at_most_once\""])
        let popper = try ListPopper(stage.stage.redis)
        defer { popper.stop() }
        var (times, popped, reference) = (Figures(), Figures(), Figures())
        for number in 1...idleJobs {
            // Independent of the heartbeats of the daemon.
            let pause = { wait(.microseconds(Int.random(in: 3000...13_000))) }
            pause()
            times.values.append(try stage.latency(of: number))
            pause()
            popped.values.append(try popping.latency(of: number))
            pause()
            reference.values.append(
                try popper.time { try stage.stage.push([BenchJob.text(number)], to: ListPopper.list) } / .microseconds(1))
        }
        say("idle, RPUSH to the reply of BLPOP at a bare client: \(line(reference)) us")
        say("idle, RPUSH to request at the server: \(line(times)) us (\(idleJobs) jobs)")
        say("the same with at_most_once: \(line(popped)) us")
        return [
            ("idle_blpop_us", json(reference)), ("idle_latency_us", json(times)), ("idle_at_most_once_us", json(popped)),
        ]
    }

    /// Measures jobs at shares of the top rate. The latency starts at the due time, so that a stall counts for all waiting jobs.
    private func measureLoad() throws -> [(String, JSON)] {
        let top = try topRate()
        say("top rate with producer and server on the same processors: \(decimal(top, 0)) pushes/s")
        var parts: [JSON] = []
        for share in [0.1, 0.5, 0.9] {
            let times = try measure(rate: top * share)
            let name = "\(Int(share * 100)) % of it"
            say("\(padRight(name, 10)) due to request at the server: \(line(times)) us (\(times.values.count) jobs)")
            parts.append(
                .object([
                    ("share", .number(share, digits: 1)), ("rate", .number(top * share, digits: 0)), ("latency_us", json(times)),
                ]))
        }
        return [("top_rate", .number(top, digits: 0)), ("load_latency", .array(parts))]
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
            wait(due - .now, every: .microseconds(100))
            let first = 1 + number * perTick
            try stage.stage.push((first..<first + perTick).map { BenchJob.text($0) })
        }
        _ = try stage.arrival(of: deviceToken(ticks * perTick))
        guard waitUntil(atMost: .seconds(30), { stage.stage.simulator.totals.accepted > ticks * perTick }) else {
            throw LabError(description: "not all pushes arrived")
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

    private func json(_ times: Figures) -> JSON {
        .object(
            [("p50", 50), ("p99", 99), ("p999", 99.9)].map { ($0.0, .number(times.percentile($0.1), digits: 0)) })
    }

    private func milliseconds(_ time: Duration) -> String { decimal(time / .milliseconds(1), 1) }
}

extension DaemonProcess {
    var preciseProcessorTime: Duration { gapless_lab.preciseProcessorTime(of: process.pid) }
}

/// Returns user and system time with a finer resolution than ticks: the sum over all threads of /proc/PID/task/TID/schedstat.
func preciseProcessorTime(of pid: CInt) -> Duration {
    var total = 0
    for thread in folderEntries("/proc/\(pid)/task") {
        let first = File.read("/proc/\(pid)/task/\(thread)/schedstat").split(separator: " ").first
        total += first.flatMap { Int($0) } ?? 0
    }
    return .nanoseconds(total)
}

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
        try stage.command("INFO", "stats").number(after: "total_commands_processed:") ?? 0
    }
}

/// A client on its own thread that only calls BLPOP: the reference for the idle latency.
final class ListPopper {
    static let list = "reference"
    private static let stopElement = "stop"

    private let arrivals = Mailbox<Instant>()
    private let settings: QueueSettings
    private var thread: OwnedThread?

    init(_ redis: RedisServer) throws {
        var settings = QueueSettings(list: ListPopper.list, server: .unix(path: redis.socketPath))
        settings.timeout = .seconds(30)
        self.settings = settings
        let arrivals = arrivals
        thread = try OwnedThread(name: "popper") { [settings] in
            guard var client = try? RedisClient(settings: settings) else { return }
            while let reply = try? client.command(["BLPOP", ListPopper.list, "0"]),
                reply.items?.last?.text != ListPopper.stopElement
            {
                arrivals.send(.now)
            }
        }
    }

    /// Returns the time from before `push`, which pushes one element, until it arrives.
    func time(_ push: () throws -> Void) throws -> Duration {
        let start = Instant.now
        try push()
        var poller = Poller()
        poller.add(arrivals.wakeDescriptor, for: .read)
        poller.wait(until: start + .seconds(10))
        guard let arrival = arrivals.drain().first else { throw LabError(description: "BLPOP got no reply") }
        return arrival - start
    }

    func stop() {
        guard let thread = thread.take(), var client = try? RedisClient(settings: settings) else { return }
        _ = try? client.command(["RPUSH", ListPopper.list, ListPopper.stopElement])
        thread.join()
    }
}
