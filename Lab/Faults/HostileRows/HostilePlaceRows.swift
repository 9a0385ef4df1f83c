import Glibc
import Harness
import Platform
internal import RedisQueue

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
        let wrapper = ["env"] + names.environment.map { "\($0.key)=\($0.value)" }
        var daemon = try trial.start(under: wrapper)
        try trial.produce(perSecond: 500)
        for turn in 1...trial.times(10) {
            try trial.awaitBusy()
            try trial.allowInFlightTwice()
            try trial.inject {
                names.hang()
                trial.stage.redisProxy?.cutAll()
                // Redis is reached again, after a lookup that hangs.
                let sent = try trial.stage.sent()
                try trial.awaitSent(sent + 200)
                trial.stage.serviceProxy?.cutAll()
                trial.pause(100...500)
                trial.measureIdleness(daemon)
                try trial.terminate(daemon)
                // A new daemon knows no address: it can do nothing.
                if turn % 2 == 0 {
                    let idle = try trial.start("idle-\(turn)", under: wrapper)
                    try trial.await("it waits for the resolver") { idle.standardError.contains("looking up localhost") }
                    trial.measureIdleness(idle, for: .seconds(1))
                    trial.stop(idle)
                }
                names.release()
                daemon = try trial.start(under: wrapper)
            }
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
                try trial.await("all are settled") { try trial.status().isDrained }
                trial.measureIdleness(daemon)
            }
            try trial.terminate(daemon)
        }
    }
}
