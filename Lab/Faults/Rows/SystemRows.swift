import Glibc
import Harness
import Platform
internal import RedisQueue

/// Faults of the system: no memory, no descriptors, no space for the log.
extension Fault {
    static let limitRows = [outOfMemory, outOfDescriptors, unwritableLog]

    /// The writable memory may grow by less than a megabyte while jobs of 3 KB, and two of several megabytes, arrive: the daemon
    /// exits or continues. A limit of the address space would have no effect: malloc(3) has reserved more than it uses.
    private static let outOfMemory = Fault(
        number: 10, name: "memory", title: "out of memory (prlimit --data)", rule: .onlyWhatWasInFlight
    ) { trial in
        // Without the limit, the daemon reads the large jobs and dead-letters them.
        trial.memoryCap = Sanitizer.memoryBound(256 << 20)
        try trial.open(simulator: ["--latency", "20ms..60ms"])
        let large = String(repeating: "x", count: 4_000_000)
        var ends = 0
        try trial.injectAgain(10) { _ in
            let daemon = try trial.start()
            try trial.queue(1000)
            try trial.awaitBusy()
            let room = trial.draw(0...1_000_000)
            try trial.limit(daemon, "--data=\(writableBytes(of: daemon.process.pid) + room)")
            try trial.queue(2) { #"{"token":"\#(deviceToken($0))","data":{"aps":{},"x":"\#(large)"}}"# }
            try trial.queue(3000) { Trial.job($0, bytes: 3000) }
            if let exit = trial.awaitEnd(of: daemon, atMost: .seconds(3)) {
                if exit.status == 0 { trial.fail("the daemon exited with 0") }
                ends += 1
            } else {
                trial.kill(daemon)
            }
            try trial.allowInFlightTwice()
            let successor = try trial.start()
            // If its predecessor continued, no job is left.
            let pid = String(successor.process.pid)
            try trial.await("the next daemon works and all jobs are settled") {
                let status = try trial.status()
                return status.isDrained && status.workers.contains { $0.details["pid"] == pid }
            }
            try trial.terminate(successor)
        }
        if trial.scale == .full, ends == 0 { trial.fail("no daemon has met its limit") }
    }

    private static func writableBytes(of pid: CInt) -> Int {
        let line = File.read("/proc/\(pid)/status").split(separator: "\n").first { $0.hasPrefix("VmData:") }
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
        try trial.injectAgain(10) { _ in
            try trial.await("the daemon logs it") { trial.complaints("oo many open files") > 0 }
            trial.pause(10...300)
            try trial.stage.killClients()
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

/// Faults of the daemon: its clock.
extension Fault {
    static let clockRows = [jumpingClock]

    /// Only the time of day jumps; the monotonic clocks stay unchanged.
    private static let jumpingClock = Fault(
        number: 43, name: "clock", title: "the daemon's clock jumps a day, both ways", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "5ms", "--fail", "503:1%"])
        let clock = try ShiftedClock()
        try trial.start(under: clock.wrapper)
        try trial.produce()
        try trial.injectBusy(10) { turn in
            clock.move(to: .seconds([86_400, -86_400, 0][turn % 3]))
            trial.pause(100...500)
        }
        clock.move(to: .zero)
        // The lines about retries begin with the date that the daemon sees.
        let days = Set(trial.stage.standardErrors.matches(of: #/\d{4}/\d\d/\d\d /#).map { String($0.output) })
        if trial.scale == .full, days.count < 2 { trial.fail("all lines of the log are of one day: the clock did not jump") }
        trial.afterwards = { status in
            if status.counter(.recovered) + status.counter(.fenced) > 0 { trial.fail("a lease expired") }
            // A resend keeps the deadline of the first attempt, which has passed a day later.
            let reasons = try trial.stage.deadLetterCounts().reasons.keys.filter { $0 != "Expired" }
            if !reasons.isEmpty { trial.fail("dead letters with the reasons \(reasons)") }
        }
    }
}

/// A place to run that hangs: its resolver, the reader of its log.
extension Fault {
    static let hostilePlaceRows = [hangingResolver, stalledLog]

    /// The connections are cut while no lookup returns: the daemon continues with the last address of Redis. Without a session to
    /// APNs it waits.
    private static let hangingResolver = Fault(
        number: 41, name: "names-hang", title: "the resolver never responds", rule: .onlyWhatWasInFlight
    ) { trial in
        let names = try HangingNames()
        try trial.open(proxies: true, settings: ["redis_host": "\"localhost\"", "drain_timeout": "2"])
        let wrapper = names.wrapper
        var daemon = try trial.start(under: wrapper)
        try trial.produce(perSecond: 500)
        try trial.injectBusy(10) { turn in
            try trial.allowInFlightTwice()
            names.hang()
            trial.redisProxy.cutAll()
            // Redis is reached again, after a lookup that hangs.
            let sent = try trial.stage.sent()
            try trial.awaitSent(sent + 200)
            trial.serviceProxy.cutAll()
            trial.pause(100...500)
            trial.measureIdleness(of: [daemon])
            try trial.terminate(daemon)
            // A new daemon knows no address: it can do nothing.
            if turn % 2 == 1 {
                let idle = try trial.start("idle-\(turn)", under: wrapper)
                try trial.await("it waits for the resolver") { idle.standardError.contains("looking up localhost") }
                trial.measureIdleness(of: [idle], for: .seconds(1))
                trial.stop(idle)
            }
            names.release()
            daemon = try trial.start(under: wrapper)
        }
    }

    /// Both outputs go to a pipe that is full: each push is logged, and no line can be written.
    private static let stalledLog = Fault(
        number: 42, name: "log-stalled", title: "the reader of the log stops reading", rule: .nothingTwice
    ) { trial in
        let port = FreePort.pick()
        try trial.open(settings: ["log_successes": "true", "metrics_listen": "\"127.0.0.1:\(port)\""])
        let path = trial.stage.folder.file("log.fifo")
        guard unsafe mkfifo(path, 0o600) == 0 else { throw TrialError(description: "cannot make \(path): errno \(errno)") }
        let reader = unsafe open(path, O_RDWR | O_CLOEXEC)
        defer { close(reader) }
        try trial.produce()
        let times = trial.times(10)
        for turn in 1...times {
            var daemon: DaemonProcess!
            try trial.inject { daemon = try trial.start(log: .file(path)) }
            let sent = try trial.stage.sent()
            try trial.awaitSent(sent + 3000)
            trial.noteTurn(port: port)
            if turn == times {
                _ = trial.stopProducing()
                try trial.awaitDrained()
                trial.measureIdleness(of: [daemon])
            }
            try trial.terminate(daemon)
        }
    }
}
