import Glibc
import Harness
internal import RedisQueue

/// Faults of the system: no memory, no descriptors, no space for the log.
extension Fault {
    static let limitRows = [outOfMemory, outOfDescriptors, unwritableLog]

    /// The address space may not grow while jobs of several megabytes arrive: the daemon exits or continues.
    private static let outOfMemory = Fault(
        number: 10, name: "memory", title: "out of memory (prlimit --as)", rule: .onlyWhatWasInFlight
    ) { trial in
        // Without the limit, the daemon reads the large jobs and dead-letters them.
        trial.memoryCap = 256 << 20
        try trial.open(simulator: ["--latency", "20ms..60ms"])
        let large = String(repeating: "x", count: 4_000_000)
        for _ in 1...trial.times(10) {
            let daemon = try trial.start()
            try trial.queue(1000)
            try trial.awaitBusy()
            try trial.inject {
                let room = trial.draw(0...2_000_000)
                try trial.limit(daemon, "--as=\(addressSpace(of: daemon.process.pid) + room)")
                try trial.queue(2) { #"{"token":"\#(deviceToken($0))","data":{"aps":{},"x":"\#(large)"}}"# }
                try trial.queue(1000)
                if let exit = trial.awaitEnd(of: daemon, atMost: .seconds(3)) {
                    if exit.status == 0 { trial.fail("the daemon exited with 0") }
                } else {
                    trial.kill(daemon)
                }
                try trial.allowInFlightTwice()
            }
            let successor = try trial.start()
            // If its predecessor continued, no job is left.
            let pid = String(successor.process.pid)
            try trial.await("the next daemon works and all jobs are settled") {
                let status = try trial.status()
                return status.isDrained && status.workers.contains { $0.details["pid"] == pid }
            }
            try trial.terminate(successor)
        }
    }

    private static func addressSpace(of pid: CInt) -> Int {
        let line = File.read("/proc/\(pid)/status").split(separator: "\n").first { $0.hasPrefix("VmSize:") }
        return line?.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 } ?? 0
    }

    /// Twenty sessions and two connections to Redis need more descriptors than available, also after each cut.
    private static let outOfDescriptors = Fault(
        number: 11, name: "descriptors", title: "27 descriptors for 20 sessions, Redis connections cut", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open(settings: ["pool_size": "20"])
        try trial.start(under: ["prlimit", "--nofile=27"])
        try trial.produce()
        for _ in 1...trial.times(10) {
            try trial.await("the daemon logs it") { trial.complaints("oo many open files") > 0 }
            trial.pause(10...300)
            try trial.inject { try trial.stage.killClients() }
        }
    }

    /// The log goes to a full disk, to a file at its limit, to a pipe without a reader, in turn. Each push is logged.
    private static let unwritableLog = Fault(
        number: 42, name: "log", title: "log to a full disk, ulimit -f, closed pipe", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(settings: ["log_successes": "true"])
        try trial.produce()
        for turn in 0..<trial.times(12) {
            var daemon: DaemonProcess!
            try trial.inject {
                switch turn % 3 {
                case 0: daemon = try trial.start(log: .file("/dev/full"))
                // Thread Sanitizer writes a larger file of its own when a program starts.
                case 1 where Sanitizer.current != .thread:
                    daemon = try trial.start("limited\(turn)", under: ["prlimit", "--fsize=8192"])
                default: daemon = try trial.start(under: ["bash", "-c", #"exec "$@" > >(exec true) 2> >(exec true)"#, "bash"])
                }
            }
            daemon.process.kill(SIGHUP)
            let sent = try trial.stage.sent()
            try trial.awaitSent(sent + 500)
            try trial.terminate(daemon)
        }
        try trial.start()
    }
}
