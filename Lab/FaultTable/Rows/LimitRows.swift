import Glibc
import Harness
internal import RedisQueue

/// Faults of the daemon itself: what the system does not give it.
extension Fault {
    static let limitRows = [outOfMemory, outOfDescriptors, unwritableLog]

    /// Its address space may not grow while it gets jobs of several megabytes: it ends, or it goes on.
    private static let outOfMemory = Fault(
        number: 10, name: "memory", title: "no more memory (prlimit --as)", rule: .onlyWhatWasInFlight
    ) { trial in
        // Without the limit, the large jobs are read and become dead letters.
        trial.memoryCap = 256 << 20
        try trial.open(simulator: ["--latency", "20ms..60ms"])
        let large = String(repeating: "x", count: 4_000_000)
        for _ in 1...trial.times(10) {
            let daemon = try trial.start()
            try trial.queue(1000)
            try trial.awaitBusy()
            try trial.strike {
                let room = trial.draw(0...2_000_000)
                try trial.limit(daemon, "--as=\(addressSpace(of: daemon.process.pid) + room)")
                try trial.queue(2) { #"{"token":"\#(deviceToken($0))","data":{"aps":{},"x":"\#(large)"}}"# }
                try trial.queue(1000)
                if let exit = trial.awaitEnd(of: daemon, atMost: .seconds(3)) {
                    if exit.status == 0 { trial.fail("it said that it had ended well") }
                } else {
                    trial.kill(daemon)
                }
                try trial.allowInFlightTwice()
            }
            let successor = try trial.start()
            // Where its predecessor went on in spite of the limit, there is nothing left to settle.
            let pid = String(successor.process.pid)
            try trial.await("it is at work and all are settled") {
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

    /// Twenty sessions and two connections to Redis want more than there is, also after each cut.
    private static let outOfDescriptors = Fault(
        number: 11, name: "descriptors", title: "24 descriptors for 20 sessions, Redis cut", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(settings: ["pool_size": "20"])
        try trial.start(under: ["prlimit", "--nofile=24"])
        try trial.produce()
        for _ in 1...trial.times(10) {
            try trial.await("it has said so") { trial.complaints("oo many open files") > 0 }
            trial.pause(10...300)
            try trial.strike { try trial.stage.killClients() }
        }
    }

    /// A full disk, a file at its limit, a pipe that nobody reads, in turn. Each push is to be logged.
    private static let unwritableLog = Fault(
        number: 42, name: "log", title: "log to a full disk, ulimit -f, closed pipe", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(settings: ["log_successes": "true"])
        try trial.produce()
        for turn in 0..<trial.times(12) {
            var daemon: DaemonProcess!
            try trial.strike {
                switch turn % 3 {
                case 0: daemon = try trial.start(log: .file("/dev/full"))
                case 1: daemon = try trial.start("limited\(turn)", under: ["prlimit", "--fsize=8192"])
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
