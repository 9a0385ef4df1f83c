import ArgumentParser
import Glibc
import Harness
import JSONBytes
import Platform
import RedisQueue

/// Measures `pause`, `find`, `cancel` and `cancel --undo` on a long list under load, with three daemons.
struct Control: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Pauses, searches, cancels and restores jobs of a long list under load, and checks every byte.",
        discussion: """
            Three daemons deliver a list of which 30 % belong to the app "news". The command measures how long claims go on \
            after 'pause', how long 'find' takes and what it costs, and the deliveries during 'cancel --app news', which is \
            killed twice with SIGKILL. Then it compares all jobs byte for byte, before and after 'cancel --undo'. It fails if a \
            figure misses its limit.
            """)

    @Option(help: "The number of jobs.")
    var jobs = 1_000_000

    @Option(help: "Pushes per second of all daemons together.")
    var rate = 5000

    func run() throws {
        let load = try ControlLoad(jobs: jobs, rate: rate)
        say("\(jobs) jobs, 3 daemons, at most \(rate) pushes/s\n")
        let normal = try load.rate(over: .seconds(5))
        say("deliveries        \(decimal(normal, 0))/s")
        var missed = try find(load, normal)
        missed += try pause(load)
        // The daemons claim again within a second after the end of the pause.
        for _ in 0..<30 where try load.rate(over: .seconds(1)) < 0.9 * normal { continue }
        missed += try cancel(load, normal)
        missed += try undo(load)
        if !missed.isEmpty { throw LabError(description: missed.joined(separator: "; ")) }
    }

    private func find(_ load: ControlLoad, _ normal: Double) throws -> [String] {
        let begin = Instant.now
        var output = ""
        let during = try load.rate { output = try load.call("find", "--token", deviceToken(jobs - 1)) }
        let seconds = (Instant.now - begin) / .seconds(1)
        say("find --token      \(decimal(seconds, 1)) s, deliveries \(decimal(during, 0))/s")
        var missed = seconds < 10 ? [] : ["find took \(decimal(seconds, 1)) s"]
        if !output.contains("waiting") { missed.append("find did not find the last job: \(output)") }
        if during < 0.8 * normal { missed.append("find cost more than 20 % of the deliveries") }
        return missed
    }

    private func pause(_ load: ControlLoad) throws -> [String] {
        _ = try load.call("pause", "--reason", "measurement")
        let called = Instant.now
        let claimed = try load.lastChangeOfClaims(within: .seconds(4))
        let seconds = max(0, (claimed - called) / .seconds(1))
        say("pause             claims end \(decimal(seconds, 2)) s after the call")
        _ = try load.call("resume")
        return seconds <= 1 ? [] : ["claims ended \(decimal(seconds, 2)) s after the pause"]
    }

    private func cancel(_ load: ControlLoad, _ normal: Double) throws -> [String] {
        var during = 0.0
        var (seconds, output) = (0.0, "")
        for attempt in 1...3 {
            let begin = Instant.now
            let rate = try load.rate {
                output = try load.call("cancel", "--app", "news", "--yes", killedAfter: attempt < 3 ? .seconds(4) : nil)
            }
            during += rate * ((Instant.now - begin) / .seconds(1))
            seconds += (Instant.now - begin) / .seconds(1)
            let cancelled = try load.stage.command("LLEN", load.stage.keys.cancelled).integer ?? 0
            say("cancel, call \(attempt)    \(cancelled) cancelled so far, deliveries \(decimal(rate, 0))/s")
        }
        let lines = output.split(separator: "\n").joined(separator: ", ")
        say("cancel            \(decimal(seconds, 1)) s with two kill -9: \(lines)")
        _ = try load.call("pause")
        _ = try load.lastChangeOfClaims(within: .seconds(3))
        let state = try load.state()
        say("                  \(state)")
        var missed = during / seconds < 0.8 * normal ? ["cancel cost more than 20 % of the deliveries"] : []
        if state.waitingOfApp > 0 { missed.append("cancel left \(state.waitingOfApp) jobs") }
        return missed + state.faults
    }

    private func undo(_ load: ControlLoad) throws -> [String] {
        let begin = Instant.now
        let output = try load.call("cancel", "--undo", "--yes")
        let seconds = (Instant.now - begin) / .seconds(1)
        say("cancel --undo     \(decimal(seconds, 1)) s: \(output.split(separator: "\n").joined(separator: ", "))")
        let state = try load.state()
        say("                  \(state)")
        return state.faults + (state.cancelled == 0 ? [] : ["\(state.cancelled) jobs are still cancelled"])
    }
}

/// A long list with two apps, and three daemons that deliver it.
struct ControlLoad {
    let stage: Stage
    private let jobs: Int
    private let daemons: [DaemonProcess]

    init(jobs: Int, rate: Int) throws {
        self.jobs = jobs
        stage = try Stage(simulator: ["--token-streams", "1000", "--topic", Stage.topic, "--topic", "com.example.news"])
        let news = """
            {"news": {"apns_topic": "com.example.news", "apns_auth_key_path": "credentials/AuthKey_SIMKEY0001.p8", \
            "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001"}}
            """
        let settings = try stage.write(["apps": news, "max_rate": "\(max(1, rate / 3))"])
        try stage.push((0..<jobs).lazy.map(Self.job))
        let stage = stage
        daemons = try (1...3).map { try stage.start(settings, name: "daemon\($0)") }
        let isRunning = try waitUntil(atMost: .seconds(30)) { try stage.sent() > rate * 2 }
        if !isRunning { throw LabError(description: "the daemons do not deliver:\n" + stage.standardErrors.suffix(2000)) }
    }

    static func isOfApp(_ number: Int) -> Bool { number % 10 < 3 }

    static func job(_ number: Int) -> String {
        let app = isOfApp(number) ? #""app": "news", "# : ""
        return
            #"{"token": "\#(deviceToken(number))", \#(app)"identifier": \#(number), "data": {"aps": {"alert": "Hi \#(number)"}}}"#
    }

    static func number(of token: String) -> Int? { Int(token.suffix(16), radix: 16) }

    /// Runs a call of gaplessd and returns its output.
    func call(_ call: String, _ arguments: String..., killedAfter limit: Duration? = nil) throws -> String {
        let output = stage.folder.file("call.out")
        _ = unsafe unlink(output)
        let process = try stage.startCall([call] + arguments, output: "call.out")
        if let limit {
            if process.wait(atMost: limit) == nil { process.kill(SIGKILL) }
            _ = process.wait()
        } else if process.wait(atMost: .seconds(1800))?.status != 0 {
            throw LabError(description: "gaplessd \(call) failed:\n" + File.read(output))
        }
        return File.read(output)
    }

    /// Deliveries per second.
    func rate(over length: Duration) throws -> Double { try rate { wait(length) } }

    /// Deliveries per second during an action.
    func rate(during action: () throws -> Void) throws -> Double {
        let (before, begin) = (try stage.sent(), Instant.now)
        try action()
        let seconds = (Instant.now - begin) / .seconds(1)
        return Double(try stage.sent() - before) / max(0.001, seconds)
    }

    /// Watches the counter of claims. Returns the time of its last change.
    func lastChangeOfClaims(within length: Duration) throws -> Instant {
        let end = Instant.now + length
        var (known, changed) = (try claimed(), Instant.now - .seconds(60))
        while .now < end {
            wait(.milliseconds(20))
            let now = try claimed()
            if now != known { (known, changed) = (now, .now) }
        }
        return changed
    }

    private func claimed() throws -> Int { try stage.command("HGET", stage.keys.stats, "claimed").text.flatMap { Int($0) } ?? 0 }

    /// Reads where all jobs are, once nothing is in flight.
    func state() throws -> ControlState {
        let isQuiet = try waitUntil(atMost: .seconds(30)) { try stage.status().inFlight == 0 }
        if !isQuiet { throw LabError(description: "jobs stay in flight although the list is paused") }
        return try ControlState(
            jobs: jobs, waiting: try elements(Stage.list), cancelled: try elements(stage.keys.cancelled),
            delivered: stage.ledger.accepted)
    }

    private func elements(_ key: String) throws -> [[UInt8]] {
        var all: [[UInt8]] = []
        while true {
            let page = try stage.command("LRANGE", key, "\(all.count)", "\(all.count + 4999)").items?.compactMap(\.bytes) ?? []
            if page.isEmpty { return all }
            all += page
        }
    }
}

/// Where all jobs of a paused list are, by the bytes that are in Redis and the tokens that the simulator accepted.
struct ControlState: CustomStringConvertible {
    var waiting = 0
    var waitingOfApp = 0
    var cancelled = 0
    var delivered = 0
    private var jobs: Int
    /// Jobs with other bytes than they were pushed with, jobs in two places, and accepted tokens of cancelled jobs.
    private var changed = 0
    private var doubled = 0
    private var missing = 0

    init(jobs: Int, waiting: [[UInt8]], cancelled: [[UInt8]], delivered: [String: Int]) throws {
        self.jobs = jobs
        var places = [Int](repeating: 0, count: jobs)
        func take(_ bytes: [UInt8]) throws -> Int? {
            let token = try JSONValue.parse(bytes)["token"]?.stringValue
            guard let found = token.flatMap(ControlLoad.number), found < jobs, Array(ControlLoad.job(found).utf8) == bytes else {
                changed += 1
                return nil
            }
            places[found] += 1
            return found
        }
        for bytes in waiting { if let found = try take(bytes), ControlLoad.isOfApp(found) { waitingOfApp += 1 } }
        for record in cancelled {
            let text = try JSONValue.parse(record)["element"]?.stringValue ?? ""
            _ = try take(Array(text.utf8))
        }
        for token in delivered.keys { if let found = ControlLoad.number(of: token), found < jobs { places[found] += 1 } }
        (self.waiting, self.cancelled, self.delivered) = (waiting.count, cancelled.count, delivered.count)
        doubled = places.count { $0 > 1 }
        missing = places.count { $0 == 0 }
    }

    var faults: [String] {
        var faults: [String] = []
        if changed > 0 { faults.append("\(changed) jobs have other bytes") }
        if doubled > 0 { faults.append("\(doubled) jobs are in two places") }
        if missing > 0 { faults.append("\(missing) jobs are missing") }
        return faults
    }

    var description: String {
        "\(jobs) jobs = \(delivered) delivered + \(waiting) waiting + \(cancelled) cancelled; "
            + "missing \(missing), in two places \(doubled), with other bytes \(changed)"
    }
}
