import APNSSimulator
import Glibc
import Harness
internal import RedisQueue

/// Faults with a round trip of 100 ms to APNs, and payloads of 200 and 4000 bytes, so that windows are full.
extension Fault {
    static let distanceRows = [
        farKilled, farGoAways, farCut, farHalfOpen, farStreams, farDrain, farReload, farSilence, farUnsteady,
    ]

    private static let sessions = 4

    /// A row with a relay that delays, a daemon and a producer.
    ///
    /// - Parameter rate: jobs per second.
    private static func far(
        _ name: String, _ title: String, _ rule: Rule, isQuick: Bool = false, rate: Int = 800,
        settings: [String: String?] = [:], run: @escaping @Sendable (Trial, DaemonProcess) throws -> Void
    ) -> Fault {
        Fault(number: 72, name: "distance-\(name)", title: "100 ms away: \(title)", rule: rule, isQuick: isQuick) { trial in
            let all = settings.merging(["pool_size": String(sessions)]) { ours, _ in ours }
            try trial.open(hosting: Trial.accepting(after: 0...5), proxies: true, settings: all)
            trial.serviceProxy.behaviour.delay = .milliseconds(50)
            let daemon = try trial.start()
            if rate > 0 { try trial.produce(perSecond: rate, Trial.mixedJob) }
            try run(trial, daemon)
        }
    }

    private static let farKilled = far("kill", "kill -9 of the daemon", .onlyWhatWasInFlight, isQuick: true) { trial, daemon in
        var daemon = daemon
        try trial.injectBusy(10, after: 50...800) { _ in
            trial.kill(daemon)
            try trial.allowWireTwice()
            daemon = try trial.start()
        }
    }

    private static let farGoAways = far("goaway", "GOAWAY of every kind", .onlyWhatWasInFlight) { trial, daemon in
        try trial.sendGoAways(trial.scale == .full ? 20 : 4, to: daemon)
    }

    private static let farCut = far("cut", "all APNs connections cut", .onlyWhatWasInFlight, isQuick: true) { trial, _ in
        try trial.injectBusy(10, after: 50...500) { _ in
            try trial.allowWireTwice()
            trial.serviceProxy.cutAll()
        }
    }

    private static let farHalfOpen = far(
        "half-open", "APNs half-open", .onlyWhatWasInFlight,
        settings: ["apns_keepalive": "1", "apns_request_timeout": "4"]
    ) { trial, _ in
        for _ in 1...trial.times(10) {
            try trial.await("all sessions are open") { trial.stage.simulator.totals.openConnections >= sessions }
            try trial.awaitBusy()
            try trial.inject {
                let noticed = trial.complaints("is closed: ")
                trial.serviceProxy.deadenAll()
                try trial.allowWireTwice()
                try trial.await("the first PING times out") { trial.complaints("is closed: ") > noticed }
            }
        }
    }

    private static let farStreams = far("streams", "streams lowered to 1 and 0", .nothingTwice) { trial, _ in
        try trial.injectBusy(10) { _ in
            for limit: UInt32 in [1, 1000, 0, 1, 0, 1000] {
                trial.stage.simulator.behave { $0.streamLimit = limit }
                trial.pause(50...300)
            }
        }
        trial.afterwards = { status in
            if trial.stage.simulator.totals.limitViolations > 0 { trial.fail("streams above an acknowledged limit") }
            trial.expectNothingCounted(status)
        }
    }

    private static let farDrain = far("drain", "SIGTERM with full windows", .nothingTwice, isQuick: true, rate: 0) {
        trial, daemon in
        trial.afterwards = trial.expectNothingCounted
        var daemon = daemon
        try trial.injectAgain(10) { _ in
            try trial.queue(trial.scale == .full ? 5000 : 1500, Trial.mixedJob)
            let sent = try trial.stage.sent()
            try trial.await("pushes wait for windows") { try trial.status().inFlight > 500 && trial.stage.sent() > sent }
            trial.pause(0...150)
            try trial.terminate(daemon)
            if try trial.status().backlog == 0 { trial.fail("the daemon had sent everything before it stopped") }
            daemon = try trial.start()
        }
    }

    private static let farReload = far("reload", "SIGHUP", .nothingTwice) { trial, daemon in
        try trial.injectBusy(10, after: 50...500) { turn in
            // Without a change the sessions would stay.
            try trial.write(settings: ["apns_keepalive": "\(61 + turn)"])
            let before = trial.stage.simulator.totals.connections
            daemon.process.kill(SIGHUP)
            try trial.await("new sessions replace the old ones") {
                trial.stage.simulator.totals.connections >= before + sessions
            }
        }
        trial.afterwards = trial.expectNothingCounted
    }

    private static let farSilence = far(
        "silent", "APNs does not respond for two seconds", .nothingTwice, settings: ["apns_request_timeout": "1"]
    ) { trial, _ in
        for _ in 1...trial.times(10) {
            try trial.awaitBusy()
            try trial.inject {
                let before = try trial.status().counter(.retried)
                trial.stage.simulator.behave { $0.script.failures = [Script.Share(.silent, 1)] }
                trial.pause(.seconds(2))
                trial.stage.simulator.behave { $0.script.failures = [] }
                try trial.await("requests time out") { try trial.status().counter(.retried) > before }
            }
            // Otherwise the next silence begins while the retries of this one wait, and both are one long silence.
            let silenced = trial.acknowledged()
            try trial.await("each job of the silence is delivered or dead", every: .milliseconds(50)) {
                trial.tail.read()
                let open = silenced.count { trial.tail.accepted[deviceToken($0)] == nil }
                return try open <= trial.status().dead
            }
        }
        trial.afterwards = { if $0.dead > 0 { trial.fail("\($0.dead) dead letters after a short silence") } }
    }

    private static let farUnsteady = far("unsteady", "a slow link with jitter", .nothingTwice) { trial, _ in
        let (proxy, usual) = (trial.serviceProxy, trial.serviceProxy.behaviour)
        try trial.injectBusy(10) { _ in
            proxy.behaviour.jitter = .milliseconds(trial.draw(20...200))
            proxy.behaviour.bytesPerSecond = 100_000
            trial.pause(500...2000)
            proxy.behaviour = usual
        }
        trial.afterwards = trial.expectNothingCounted
    }
}

extension Trial {
    /// Three payloads of about 200 bytes, then one of 4000.
    static func mixedJob(_ number: Int) -> String {
        job(number, bytes: number % 4 == 3 ? 4000 : 200)
    }

    /// Allows duplicates of the pushes that two send windows of each session can hold: those that are on the wire, and those
    /// whose responses are.
    fileprivate func allowWireTwice() throws { allowTwice(min(try status().inFlight, 4 * 2 * (65_535 / 200 + 1))) }

    /// The fault leaves no doubt about any request, and APNs fails none.
    fileprivate func expectNothingCounted(_ status: QueueStatus) {
        let counted = [status.counter(.retried), status.counter(.maybeDuplicate), status.dead]
        if counted != [0, 0, 0] { fail("\(counted) retries, possible duplicates and dead letters; expected none") }
    }
}
