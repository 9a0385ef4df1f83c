import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue

extension Stage {
    /// A stage whose simulator keeps whole requests, and whose daemons retry quickly.
    ///
    /// - Parameters:
    ///   - options: of redis-server, as on its command line.
    ///   - topics: of the client certificate.
    ///   - validity: of the client certificate, in seconds from now.
    ///   - configure: changes the configuration of the simulator.
    convenience init(
        redis options: [String] = [], topics: [String] = [Stage.topic], validity: ClosedRange<Int>? = nil,
        configure: (inout Simulator.Configuration) -> Void = { _ in }
    ) throws {
        var request = Credentials.Request(topics: topics)
        if let validity { request.clientValidity = validity }
        try self.init(
            on: RedisServer(options: options),
            defaults: ["apns_dial_backoff_min": "0.01", "apns_dial_backoff_max": "0.1", "retry_delays": "[0.01]"]
        ) { try HostedSimulator(folder: $0, request: request, configure: configure) }
    }

    /// Writes settings and starts a daemon with its own outputs and, by default, its own state.
    func start(
        _ changes: [String: String?] = [:], name: String = "settings.json", stateFolder: String? = nil,
        environment: [String: String] = [:], under wrapper: [String] = []
    ) throws -> DaemonProcess {
        try DaemonProcess(
            settings: write(changes, name: name), folder: TemporaryFolder(), stateFolder: stateFolder,
            environment: environment, under: wrapper)
    }

    /// Returns the delayed jobs, as they will go back to the list.
    func delayed() throws -> [String] {
        let members = try command("ZRANGE", keys.delayed, "0", "-1").items?.compactMap(\.text) ?? []
        return members.map { String($0[$0.index(after: $0.firstIndex(of: "|")!)...]) }
    }

    /// Waits until APNs has accepted this many pushes in total. Returns false at the limit.
    func accepts(_ count: Int, atMost limit: Duration = .seconds(60)) -> Bool {
        waitUntil(atMost: limit) { simulator.totals.accepted >= count }
    }

    /// Delivers pushes until a condition holds: each acceptance settles the suspect tokens before it. Returns false at the limit.
    @discardableResult
    func accept(until condition: () throws -> Bool) throws -> Bool {
        var number = 900_000
        return try waitUntil {
            if try condition() { return true }
            if try status().backlog == 0 { try push(pushJob(deviceToken(number))) }
            number += 1
            return false
        }
    }

    /// Waits until APNs has accepted this many pushes in total, and no job is waiting, in flight or delayed.
    func settles(_ count: Int) throws -> Bool { try accepts(count) && drains() }

    /// Starts a daemon and delivers a first push.
    func startOpen(_ changes: [String: String?] = [:]) throws -> DaemonProcess {
        let daemon = try start(changes)
        try open(daemon)
        return daemon
    }

    /// Delivers a first push: before it, at most 20 jobs are in flight.
    func open(_ daemon: DaemonProcess) throws {
        try push(pushJob(deviceToken(999_999)))
        _ = try waitUntil(atMost: .seconds(30)) { try counter(.sent) == 1 }
    }
}

/// Returns a stage, and a daemon on it with these settings.
func given(_ changes: [String: String?] = [:]) throws -> (stage: Stage, daemon: DaemonProcess) {
    let stage = try Stage()
    return (stage, try stage.start(changes))
}

/// The same after a first push.
func givenOpen(_ changes: [String: String?] = [:]) throws -> (stage: Stage, daemon: DaemonProcess) {
    let stage = try Stage()
    return (stage, try stage.startOpen(changes))
}

/// Returns a job with these members in addition to its token and `data`.
func pushJob(_ token: String, _ members: String = "", data: String = #"{"aps":{"alert":"Hi"}}"#) -> String {
    #"{"token":"\#(token)",\#(members.isEmpty ? "" : members + ",")"data":\#(data)}"#
}

extension DaemonProcess {
    /// Waits until one of the outputs contains a text. Returns false at the limit.
    func says(_ text: String, atMost limit: Duration = .seconds(30)) -> Bool {
        waitUntil(atMost: limit) { standardError.contains(text) || standardOutput.contains(text) }
    }

    /// The lines of standard error, each time stamp replaced by `STAMP`.
    var complaints: [Substring] { LogFixture.withoutStamps(standardError).split(separator: "\n") }

    /// The lines of standard output, each time stamp replaced by `STAMP`.
    var reports: [Substring] { LogFixture.withoutStamps(standardOutput).split(separator: "\n") }

    func signal(_ signal: CInt) { process.kill(signal) }

    /// Sends SIGHUP, and waits until the log contains a reload. Returns false at the limit.
    func reloads() -> Bool {
        process.kill(SIGHUP)
        return says("Reloaded: ")
    }

    /// Sends SIGKILL and waits for the exit.
    func crash() {
        process.kill(SIGKILL)
        _ = process.wait()
    }
}

extension JSONValue {
    func text(_ key: String) -> String? { self[key]?.stringValue }

    func number(_ key: String) -> Int64? { self[key]?.integerValue }
}

/// Returns Unix seconds. time(2) lags up to a tick behind the clock that Redis reads.
func unixTime() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec)
}
