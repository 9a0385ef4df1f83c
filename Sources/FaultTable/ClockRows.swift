import Glibc
import Harness
internal import RedisQueue

/// Faults of the daemon itself: its clock, and jobs that an earlier version has left.
extension Fault {
    static let clockRows = [jumpingClock, upgraded]

    /// libfaketime reads a file at each look at the clock; the monotonic clocks stay as they are.
    private static let jumpingClock = Fault(
        number: 43, name: "clock", title: "the daemon's clock jumps a day, both ways", rule: .nothingTwice, isQuick: true
    ) { trial in
        let libraries = matches("/usr/lib/*/faketime/libfaketimeMT.so.1")
        guard let library = libraries.first else {
            throw TrialNotPossible(description: "the Debian package faketime is not installed")
        }
        try trial.open(simulator: ["--latency", "5ms", "--fail", "503:1%"])
        let clock = trial.stage.folder.file("clock")
        try File.write("+0d\n", to: clock)
        try trial.start(under: [
            "env", "LD_PRELOAD=\(library)", "FAKETIME_TIMESTAMP_FILE=\(clock)", "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            // Else the library adds this to the environment, which moves it, and Swift finds the arguments no more.
            "FAKETIME_SHARED=none none",
        ])
        trial.produce()
        for turn in 0..<trial.times(10) {
            try trial.awaitBusy()
            try trial.strike {
                try File.write(["+1d", "-1d", "+0d"][turn % 3] + "\n", to: clock)
                trial.pause(100...500)
            }
        }
        try File.write("+0d\n", to: clock)
        trial.afterwards = { status in
            if status.counter(.recovered) + status.counter(.fenced) > 0 { trial.fail("a lease ran out") }
            // A resend keeps the deadline of the first try, which a day later is past.
            let reasons = try trial.stage.deadLetters().reasons.keys.filter { $0 != "Expired" }
            if !reasons.isEmpty { trial.fail("dead letters for \(reasons)") }
        }
    }

    private static func matches(_ pattern: String) -> [String] {
        var found = glob_t()
        defer { globfree(&found) }
        guard glob(pattern, 0, nil, &found) == 0 else { return [] }
        return (0..<Int(found.gl_pathc)).compactMap { found.gl_pathv[$0].map { String(cString: $0) } }
    }

    /// Workers of the first version that died with jobs in their hands, written out by hand as that version left them.
    private static let upgraded = Fault(
        number: 49, name: "upgrade", title: "jobs in the hands of dead workers of 0.1.0", rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        try trial.open(settings: ["redis_lease": "1"])
        let keys = trial.stage.keys
        for turn in 0..<trial.times(10) {
            try trial.queue(100)
            // Half of them were claimed; those of even numbers had been in a crash before, and of one nothing else is known.
            let worker = "00000000000000\(10 + turn)-\(1000 + turn)-77-0"
            let jobs = try trial.stage.command(["LRANGE", keys.list, "0", "49"]).items?.compactMap(\.text) ?? []
            try trial.stage.command(["LTRIM", keys.list, "50", "-1"])
            let fields = jobs.enumerated().flatMap { ["\($0.offset + 1)" + ["", ":1", ":2"][turn % 3], $0.element] }
            try trial.stage.command(["HSET", keys.inflight(worker)] + fields)
            try trial.stage.command(["ZADD", keys.workers, String(trial.draw(1...1000)), worker])
            try trial.stage.command(["HINCRBY", keys.stats, "claimed", "50"])
            if turn % 2 == 0 {
                let details = ["host", "before", "pid", "1", "version", "0.1.0", "started", "1", "number", "1", "settled", "0"]
                try trial.stage.command(["HSET", keys.worker(worker)] + details)
            }
            trial.count(1)
            trial.allowTwice(50)
        }
        try trial.start()
        try trial.await("all are settled") { try trial.status().isDrained && trial.status().workers.count == 1 }
        trial.afterwards = { status in
            if status.counter(.recovered) != 50 * trial.times { trial.fail("\(status.counter(.recovered)) jobs recovered") }
        }
    }
}
