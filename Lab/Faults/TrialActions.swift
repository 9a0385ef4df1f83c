import APNSSimulator
import Glibc
import Harness
internal import RedisQueue

/// Actions and questions that several rows share.
extension Trial {
    /// A simulator that accepts everything after this many milliseconds.
    static func accepting(after latency: ClosedRange<Int>, _ failures: [APNSSimulator.Script.Share] = []) -> Behaviour {
        var behaviour = Behaviour()
        behaviour.script.latency = .milliseconds(latency.lowerBound)...(.milliseconds(latency.upperBound))
        behaviour.script.failures = failures
        return behaviour
    }

    func draw(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &random) }

    func status() throws -> QueueStatus { try stage.status() }

    /// The proxy before Redis, and the one before APNs, of a stage with `proxies`.
    var redisProxy: FaultProxy { Self.needed(stage.redisProxy) }
    var serviceProxy: FaultProxy { Self.needed(stage.serviceProxy) }

    private static func needed(_ proxy: FaultProxy?) -> FaultProxy {
        guard let proxy else { preconditionFailure("this fault needs a proxy") }
        return proxy
    }

    /// Allows duplicates of all jobs in flight: APNs may have received any of them.
    func allowInFlightTwice() throws { allowTwice(try status().inFlight) }

    /// The number of jobs that the worker of a daemon holds.
    func held(by daemon: DaemonProcess) throws -> Int { try workers(of: daemon).map(\.inFlight).reduce(0, +) }

    func isRegistered(_ daemon: DaemonProcess) throws -> Bool { try !workers(of: daemon).isEmpty }

    /// The workers of a daemon that are registered: one, unless it has several lists.
    func workers(of daemon: DaemonProcess) throws -> [QueueStatus.Worker] {
        try status().workers.filter { $0.details["pid"] == String(daemon.process.pid) }
    }

    @discardableResult
    func startProducing() throws -> DaemonProcess {
        let daemon = try start()
        try produce()
        return daemon
    }

    /// Starts a daemon and the producer, and waits until the first job is sent.
    @discardableResult
    func startAtWork() throws -> DaemonProcess {
        let daemon = try start()
        try produceAtWork()
        return daemon
    }

    /// Starts the producer, and waits until the first job is sent.
    func produceAtWork() throws {
        try produce()
        try awaitSent(1)
    }

    /// Injects the fault this many times, each time while a worker holds jobs and after a random number of milliseconds.
    ///
    /// - Parameter body: receives the number of the injection, from 0 on.
    func injectBusy(_ full: Int, after wait: ClosedRange<Int>? = nil, _ body: (Int) throws -> Void) throws {
        for turn in 0..<times(full) {
            try awaitBusy()
            if let wait { pause(wait) }
            try inject { try body(turn) }
        }
    }

    /// Injects the fault this many times, whether or not a worker holds jobs.
    func injectAgain(
        _ full: Int, after wait: ClosedRange<Int>? = nil, backWithin limit: Duration = .seconds(60), _ body: (Int) throws -> Void
    ) throws {
        for turn in 0..<times(full) {
            if let wait { pause(wait) }
            try inject(backWithin: limit) { try body(turn) }
        }
    }

    /// Verifies that no job has used up an attempt.
    func expectNothingSpent(_ status: QueueStatus, _ reason: String) {
        let spent = status.counter(.retried) + status.dead + status.counter(.expired)
        if spent > 0 { fail("\(spent) attempts were counted, although \(reason)") }
    }

    /// Verifies afterwards that no push counts as `maybe_duplicate`, because the fault leaves no doubt.
    func expectNoDoubt() {
        afterwards = { [unowned self] status in
            let doubts = status.counter(.maybeDuplicate)
            if doubts > 0 { fail("\(doubts) counted as maybe_duplicate, although the fault leaves no doubt") }
        }
    }

    /// Kills a daemon and starts another one, as a supervisor does.
    func killAndRestart(_ daemon: DaemonProcess, _ name: String = "daemon") throws -> DaemonProcess {
        kill(daemon)
        try allowInFlightTwice()
        return try start(name)
    }

    /// Sends SIGTERM; the daemon must exit with 0 and hold no job.
    func terminate(_ daemon: DaemonProcess) throws {
        stop(daemon)
        if try held(by: daemon) > 0 { fail("jobs left by a daemon that exited with 0: \(try status())") }
    }

    /// Waits for the exit of a daemon that ends by itself or by a tripwire.
    func awaitEnd(of daemon: DaemonProcess, atMost limit: Duration = .seconds(30)) -> ChildProcess.Exit? {
        forget(daemon)
        return daemon.process.wait(atMost: limit)
    }

    /// Waits until no job is waiting, in flight or delayed.
    func awaitDrained(
        _ what: String = "all are settled", atMost limit: Duration = .seconds(30), every interval: Duration = .milliseconds(2)
    ) throws {
        try self.await(what, atMost: limit, every: interval) { try status().isDrained }
    }

    /// Waits until a worker holds jobs.
    func awaitBusy() throws {
        try self.await("a worker holds jobs") { try status().inFlight > 0 }
    }

    /// Waits until two daemons are registered and one holds jobs; chooses one at random if both do.
    func awaitBusy(of daemons: [DaemonProcess]) throws -> Int {
        var found = 0
        try self.await("both daemons are registered, and one holds jobs") {
            let workers = try status().workers
            let busy = try daemons.indices.filter { try workers.count == 2 && held(by: daemons[$0]) > 0 }
            found = busy.randomElement(using: &random) ?? 0
            return !busy.isEmpty
        }
        return found
    }

    /// The number of lines with a text in the standard errors of the daemons.
    func complaints(_ text: String) -> Int {
        stage.standardErrors.split(separator: "\n").count { $0.contains(text) }
    }

    /// Waits until the ledger of the simulator has a line for every send in the counters: it is written a little later.
    func awaitLedger() throws {
        let status = try status()
        let sends = status.counter(.sent) + status.counter(.retried) + status.counter(.dead)
        try self.await("the ledger has \(sends) lines") { stage.ledger.entries.count >= sends }
    }

    /// Reads the longest turn of a daemon from `/metrics`: its log may not be readable.
    func noteTurn(port: Int) {
        let text = HTTPTalk.get("/metrics", port: port)?.body ?? ""
        let value = text.firstMatch(of: #/gapless_dispatcher_turn_max_seconds ([0-9.e-]+)\n/#).flatMap { Double($0.1) }
        if let value { add(turn: .seconds(value)) } else { fail("/metrics has no longest turn") }
    }

    /// Changes a limit of a running daemon with `prlimit`, for example `--nofile=24`.
    func limit(_ daemon: DaemonProcess, _ what: String) throws {
        let exit = try ChildProcess("prlimit", ["--pid", String(daemon.process.pid), what]).wait()
        if exit.status != 0 { throw TrialError(description: "prlimit \(what) failed") }
    }
}

/// Separate mount namespaces for daemons. They need a user namespace, which some machines forbid.
extension Trial {
    /// A command that runs a program with another file at a path: a bind mount in a mount namespace. The process keeps its id.
    func replacing(_ path: String, by substitute: String) throws -> [String] {
        guard try ChildProcess("unshare", ["-Urm", "true"]).wait().status == 0 else {
            throw TrialNotPossibleError(description: "this machine forbids user namespaces")
        }
        return ["unshare", "-Urm", "sh", "-c", #"mount --bind "$1" "$2" && shift 2 && exec "$@""#, "sh", substitute, path]
    }

    /// A command that runs a daemon with its own machine id, so that only leases reveal a dead daemon.
    func elsewhere(_ number: Int) throws -> [String] {
        let substitute = stage.folder.file("machine-\(number)")
        let digits = String(number, radix: 16)
        try File.write(String(repeating: "0", count: 32 - digits.count) + digits + "\n", to: substitute)
        return try replacing("/etc/machine-id", by: substitute)
    }
}
