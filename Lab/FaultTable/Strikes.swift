import APNSSimulator
import Glibc
import Harness
internal import RedisQueue

/// What rows do to what runs, and what they ask of it afterwards.
extension Trial {
    /// How a simulator behaves that answers everything well, after so many milliseconds.
    static func accepting(after latency: ClosedRange<Int>, _ failures: [APNSSimulator.Script.Share] = []) -> Behaviour {
        var behaviour = Behaviour()
        behaviour.script.latency = .milliseconds(latency.lowerBound)...(.milliseconds(latency.upperBound))
        behaviour.script.failures = failures
        return behaviour
    }

    func draw(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &random) }

    func status() throws -> QueueStatus { try stage.status() }

    /// What all workers hold now may be delivered again: nobody can know which of it APNs has.
    func allowInFlightTwice() throws { allowTwice(try status().inFlight) }

    /// What this daemon's worker holds.
    func held(by daemon: DaemonProcess) throws -> Int { try workers(of: daemon).map(\.inFlight).reduce(0, +) }

    func isRegistered(_ daemon: DaemonProcess) throws -> Bool { try !workers(of: daemon).isEmpty }

    private func workers(of daemon: DaemonProcess) throws -> [QueueStatus.Worker] {
        try status().workers.filter { $0.details["pid"] == String(daemon.process.pid) }
    }

    /// An orderly end, a GOAWAY or a refusal leaves no doubt: afterwards nothing may be counted as delivered twice, perhaps.
    func expectNoDoubt() {
        afterwards = { [unowned self] status in
            let doubts = status.counter(.maybeDuplicate)
            if doubts > 0 { fail("\(doubts) counted as maybe delivered twice, though the fault leaves no doubt") }
        }
    }

    /// kill -9, and what a supervisor does then.
    func killAndRestart(_ daemon: DaemonProcess, _ name: String = "daemon") throws -> DaemonProcess {
        kill(daemon)
        try allowInFlightTwice()
        return try start(name)
    }

    /// SIGTERM, after which it must end with 0 and leave nothing in its name.
    func terminate(_ daemon: DaemonProcess, atMost limit: Duration = .seconds(30)) throws {
        forget(daemon)
        let exit = daemon.stop(atMost: limit)
        if exit?.status != 0 { fail("gaplessd exited with \(String(describing: exit))") }
        if try held(by: daemon) > 0 { fail("left behind by a daemon that ended well: \(try status())") }
    }

    /// Its end has come without our doing, or by a tripwire; `nil` when it does not come.
    func awaitEnd(of daemon: DaemonProcess, atMost limit: Duration = .seconds(30)) -> ChildProcess.Exit? {
        forget(daemon)
        return daemon.process.wait(atMost: limit)
    }

    /// Waits until a worker holds something.
    func awaitBusy() throws {
        try self.await("a worker holds jobs") { try status().inFlight > 0 }
    }

    /// Waits until both of two daemons are registered and one holds something, which is drawn where both do.
    func awaitBusy(of daemons: [DaemonProcess]) throws -> Int {
        var found = 0
        try self.await("both are there, and one holds jobs") {
            let workers = try status().workers
            let busy = try daemons.indices.filter { try workers.count == 2 && held(by: daemons[$0]) > 0 }
            found = busy.randomElement(using: &random) ?? 0
            return !busy.isEmpty
        }
        return found
    }

    /// How often a text stands in what the daemons wrote to standard error.
    func complaints(_ text: String) -> Int {
        stage.standardErrors.split(separator: "\n").count { $0.contains(text) }
    }

    /// Waits until the simulator's ledger has a line for every send that the counters know of: it is written a little later.
    func awaitLedger() throws {
        let status = try status()
        let sends = status.counter(.sent) + status.counter(.retried) + status.counter(.dead)
        try self.await("the ledger has \(sends) lines") { stage.service.ledger.entries.count >= sends }
    }

    /// Changes a limit of a process that runs, as `prlimit` would: `--nofile=24`.
    func limit(_ daemon: DaemonProcess, _ what: String) throws {
        let exit = try ChildProcess("prlimit", ["--pid", String(daemon.process.pid), what]).wait()
        if exit.status != 0 { throw TrialError(description: "prlimit \(what) failed") }
    }
}

/// Places of their own for daemons. They need a user namespace, which any user may make unless the machine forbids it.
extension Trial {
    /// A command under which a file of the machine is another one: a bind mount in a mount namespace of its own. The process
    /// keeps its number.
    func replacing(_ path: String, by substitute: String) throws -> [String] {
        guard try ChildProcess("unshare", ["-Urm", "true"]).wait().status == 0 else {
            throw TrialNotPossibleError(description: "this machine allows no user namespaces")
        }
        return ["unshare", "-Urm", "sh", "-c", #"mount --bind "$1" "$2" && shift 2 && exec "$@""#, "sh", substitute, path]
    }

    /// A command under which a daemon believes itself on another machine, so that only leases tell whether others are alive.
    func elsewhere(_ number: Int) throws -> [String] {
        let substitute = stage.folder.file("machine-\(number)")
        let digits = String(number, radix: 16)
        try File.write(String(repeating: "0", count: 32 - digits.count) + digits + "\n", to: substitute)
        return try replacing("/etc/machine-id", by: substitute)
    }
}
