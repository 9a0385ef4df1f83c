import ArgumentParser
import Glibc
import Harness
import Platform
import RedisQueue

/// Shows the delivery of jobs with typical faults, and the accounting at the end.
struct Demo: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sends 10,000 jobs through Redis and the daemon to the simulator, with a kill -9 in the middle.")

    @Option(help: "The number of good jobs.")
    var jobs = 10_000

    func run() throws {
        say("gaplessd with Redis and a simulated APNs, on this machine.\n")
        let stage = try Stage(simulator: [
            "--latency", "20ms", "--fail", "503:2%", "--dead", "1%", "--topic", "com.example.app",
        ])
        say("  redis-server   on a temporary Unix socket")
        say("  apns-simulator on localhost:\(stage.service.port): TLS, HTTP/2, its own CA and .p8 key;")
        say("                 responds after 20 ms, 2 % with 503, 1 % of the tokens are unregistered\n")

        let bad = ["not JSON", #"{"token": "abcd", "data": "not an object"}"#, #"{"data": {"aps": {}}}"#]
        try stage.push((0..<jobs).lazy.map(job) + bad)
        say("  RPUSH          \(jobs) good jobs and \(bad.count) bad ones")

        let settings = try stage.write([
            "retry_delays": "[0.3, 0.6, 1]", "apns_max_concurrent_streams": "100", "log_successes": "true",
        ])
        var daemon = try stage.start(settings)
        say("  gaplessd       started\n")
        try watch(stage, until: jobs / 2)
        daemon.process.kill(SIGKILL)
        _ = daemon.process.wait()
        let killed = try stage.status()
        say("  kill -9        at \(killed.inFlight) jobs in flight; gaplessd is started again")
        daemon = try stage.start(settings)
        try watch(stage, until: nil)
        let exit = daemon.stop()
        say("  SIGTERM        exit \(exit?.status.map(String.init) ?? "by a signal")\n")
        try report(stage, daemon, bad: bad.count, inFlightAtKill: killed.inFlight)
        guard exit?.status == 0 else { throw LabError(description: "gaplessd did not exit with 0") }
    }

    private func job(_ number: Int) -> String {
        #"{"token": "\#(deviceToken(number))", "identifier": \#(number), "data": {"aps": {"alert": "Hello, \#(number)"}}}"#
    }

    /// Prints the state until this many jobs are sent, or until all are settled.
    private func watch(_ stage: Stage, until sent: Int?) throws {
        var next = Instant.now
        let isDone = try waitUntil(atMost: .seconds(60)) {
            let status = try stage.status()
            let isOver = sent.map { status.counter(.sent) >= $0 } ?? status.isDrained
            if Instant.now >= next || isOver {
                next = .now + .milliseconds(250)
                say(
                    "  LLEN \(pad(status.backlog))   in flight \(pad(status.inFlight))   delayed \(pad(status.delayed))"
                        + "   sent \(pad(status.counter(.sent)))   dead \(pad(status.dead))")
            }
            return isOver
        }
        if !isDone { throw LabError(description: "the queue did not drain within a minute") }
    }

    private func report(_ stage: Stage, _ daemon: DaemonProcess, bad: Int, inFlightAtKill: Int) throws {
        say("The log, one line of each kind:\n")
        for line in samples(of: daemon.standardOutput + daemon.standardError) { say("  " + line) }

        let (dead, reasons) = try stage.deadLetterCounts()
        let status = try stage.status()
        _ = stage.service.stop()
        let ours = Set(dead.filter { $0.count == 64 })
        let accounting = Accounting(queued: Set((0..<jobs).map(deviceToken)), ledger: stage.ledger, dead: Array(ours))
        say("\nThe accounting:\n")
        say("  \(pad(jobs + bad)) queued")
        say("  \(pad(accounting.delivered)) delivered, by the ledger of the simulator")
        for (reason, count) in reasons.sorted(by: { $0.key < $1.key }) { say("  \(pad(count)) dead: \(reason)") }
        say("  \(pad(accounting.lost)) lost")
        say("")
        say("  \(pad(status.counter(.retried))) retried after 503")
        say("  \(pad(accounting.extra)) delivered twice, of the \(inFlightAtKill) in flight at the kill -9")
        let adds = accounting.delivered + status.dead == jobs + bad
        say("\n\(jobs + bad) queued = \(accounting.delivered) delivered + \(status.dead) dead letters, lost \(accounting.lost)")
        guard adds, accounting.lost == 0, accounting.unexpected == 0, accounting.extra <= inFlightAtKill else {
            throw LabError(description: "the accounting does not balance: \(accounting)")
        }
        say(
            """

            Next, your own push, without a device or an account at Apple:

              export PATH="$PWD/.build/release:$PATH"
              redis-cli ping || redis-server --daemonize yes --save ''
              apns-simulator --settings demo.json & sleep 1
              gaplessd demo.json &
              redis-cli RPUSH demo_apns_queue '{"token": "0a1b2c", "data": {"aps": {"alert": "Hello from my own queue"}}}'

            It shows at http://127.0.0.1:8097 as on a phone; the figures of the daemon are at http://127.0.0.1:9464.
            """)
    }

    /// Returns the first line of each kind.
    private func samples(of log: String) -> [String] {
        let kinds = ["Sent:", "Retrying count (1)", "410 Unregistered", "Json unmarshal", "Parsing apns", "Took over"]
        let lines = log.split(separator: "\n")
        return kinds.compactMap { kind in lines.first { $0.contains(kind) }.map { String($0.prefix(150)) } }
    }
}

func say(_ line: String) {
    print(line)
    fflush(nil)
}

func pad(_ number: Int, _ width: Int = 6) -> String {
    padLeft(String(number), width)
}

func padLeft(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
}

func padRight(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
}

/// Lets time pass in a measurement.
func wait(_ length: Duration, every interval: Duration = .milliseconds(2)) {
    let end = Instant.now + length
    _ = waitUntil(atMost: length, every: interval) { .now >= end }
}
