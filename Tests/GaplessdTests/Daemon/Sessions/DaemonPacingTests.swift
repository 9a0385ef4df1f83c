import APNSSimulator
import Clocks
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("max_rate and max_bandwidth", .timeLimit(.minutes(30)))
struct DaemonPacingTests {
    /// What the machine may delay a push on its way, so that it falls into another second than the one it was sent in: within a
    /// second less that much there are never more than the limit.
    private static let jitter = 0.1

    /// The most that came within any second less the jitter.
    private static func most(_ entries: [LedgerEntry], of size: (LedgerEntry) -> Int = { _ in 1 }) -> Int {
        var (first, sum, most) = (0, 0, 0)
        for entry in entries {
            sum += size(entry)
            while entry.time - entries[first].time >= .seconds(1 - jitter) {
                sum -= size(entries[first])
                first += 1
            }
            most = max(most, sum)
        }
        return most
    }

    private static func duration(_ entries: [LedgerEntry]) -> Double {
        guard let first = entries.first, let last = entries.last else { return 0 }
        return (last.time - first.time) / .seconds(1)
    }

    @Test func `no second has more pushes than the limit, the apps taken together, and few are claimed ahead`() throws {
        let stage = try DaemonStage()
        let beta =
            #"{"beta": {"apns_auth_key_path": "credentials/AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001", "apns_topic": "com.example.beta"}}"#
        let daemon = try stage.start(["apps": beta, "max_rate": "100"])
        try stage.push((0..<400).map { pushJob(deviceToken($0), $0 % 2 == 0 ? "" : #""app":"beta""#) })
        var held: [Int] = []
        let isDone = try waitUntil(every: .milliseconds(20)) {
            held.append(try stage.status().inFlight)
            return stage.simulator.totals.accepted == 400
        }
        #expect(isDone)
        let entries = stage.simulator.ledger.entries
        #expect(Self.most(entries) <= 100)
        #expect(Self.duration(entries) >= 3.9)
        // Half a second's worth waits, and some are on their way or answered and not yet settled: more of them while the machine
        // stands still, so that the middle of all looks counts.
        let usual = held.sorted()[held.count / 2]
        #expect(usual <= 80, "\(usual) were held")
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `the limit is reached though answers are slow`() throws {
        let stage = try DaemonStage()
        let daemon = try stage.start(["max_rate": "400"])
        try stage.open(daemon)
        stage.simulator.behave { $0.script.latency = .milliseconds(700)...(.milliseconds(700)) }
        try stage.push((0..<1600).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(1601))
        let entries = Array(stage.simulator.ledger.entries.dropFirst())
        let seconds = Self.duration(entries)
        // 4 s would be the limit itself.
        #expect(seconds < 6, "\(seconds) s for 1600 pushes at 400 a second")
        #expect(Self.most(entries) <= 400)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `no second has more bits of payload than the limit`() throws {
        let stage = try DaemonStage()
        let daemon = try stage.start(["max_bandwidth": "200000"])
        let data = #"{"aps":{"alert":"\#(String(repeating: "x", count: 980))"}}"#
        try stage.push((0..<80).map { pushJob(deviceToken($0), data: data) })
        #expect(stage.accepts(80))
        let entries = stage.simulator.ledger.entries
        #expect(Self.most(entries) { ($0.body?.count ?? 0) * 8 } <= 200_000)
        #expect(Self.duration(entries) >= 2.9)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `SIGHUP changes the limit at once, both ways`() throws {
        let stage = try DaemonStage()
        let daemon = try stage.start(["max_rate": "0.1"])
        try stage.push((0..<300).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(1))
        try stage.write(["max_rate": "0"])
        daemon.signal(SIGHUP)
        // The second push was due in ten seconds.
        #expect(stage.accepts(300, atMost: .seconds(5)))
        try stage.write(["max_rate": "20"])
        daemon.signal(SIGHUP)
        #expect(waitUntil { daemon.standardOutput.split(separator: "Reloaded: ").count == 3 })
        try stage.push((1000..<1050).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(350))
        #expect(Self.most(Array(stage.simulator.ledger.entries.dropFirst(300))) <= 20)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a stop does not wait for what the limit holds back`() throws {
        let stage = try DaemonStage()
        let daemon = try stage.start(["max_rate": "2"])
        let jobs = (0..<20).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        #expect(stage.accepts(2))
        let begin = Instant.now
        #expect(daemon.stop()?.status == 0)
        #expect(.now - begin < .seconds(5))
        let sent = stage.simulator.totals.accepted
        #expect(sent < 15)
        #expect(try stage.backlog() == Array(jobs.dropFirst(sent)))
    }

    @Test func `with a limit and nothing to do the daemon sleeps`() throws {
        let stage = try DaemonStage()
        let daemon = try stage.start(["max_rate": "10", "pool_max_size": "8"])
        try stage.push((0..<3).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(3))
        #expect(try stage.drains())
        let (commands, ticks) = (try stage.commandsProcessed(), daemon.processorTicks)
        let begin = Instant.now
        _ = waitUntil(atMost: .seconds(5), every: .seconds(1)) { .now - begin >= .seconds(4) }
        // Beats, and looks for dead workers.
        let (newCommands, newTicks) = (try stage.commandsProcessed() - commands, daemon.processorTicks - ticks)
        #expect(newCommands < 20)
        // Of 10 ms: half a percent of four seconds.
        #expect(newTicks <= 2)
        #expect(daemon.stop()?.status == 0)
    }
}

extension DaemonStage {
    /// Commands that Redis has carried out, those inside of scripts included.
    fileprivate func commandsProcessed() throws -> Int {
        let lines = try redis("INFO", "stats").text?.split(whereSeparator: \.isNewline) ?? []
        return lines.compactMap { $0.hasPrefix("total_commands_processed:") ? Int($0.split(separator: ":")[1]) : nil }.first ?? 0
    }
}

extension DaemonProcess {
    /// What the process has had of the processor, in ticks of 10 ms.
    fileprivate var processorTicks: Int {
        // Behind the name in parentheses: field 3 on; 14 and 15 are user and system time (proc(5)).
        let fields = File.read("/proc/\(process.pid)/stat").split(separator: ")").last?.split(separator: " ") ?? []
        return fields.count > 12 ? (Int(fields[11]) ?? 0) + (Int(fields[12]) ?? 0) : 0
    }
}
