import APNSSimulator
import Glibc
import Harness
import Platform
internal import RedisQueue

/// Faults of the connections to APNs.
extension Fault {
    static let apnsRows = [goAway, goAwayUnanswered, reset, halfOpen, disorder, refusedStreams] + refusalRows

    private static let goAway = Fault(
        number: 31, name: "goaway", title: "GOAWAY under load, last id in the middle", rule: .nothingTwice, isQuick: true
    ) { trial in
        let jobs = trial.jobs(60_000)
        trial.expectNoDoubt()
        try trial.open(simulator: ["--latency", "5ms", "--goaway-every", "500", "--fail", "goaway:0.1%"])
        try trial.start()
        try trial.queue(jobs)
        try trial.awaitDrained(atMost: .seconds(120))
        trial.count(jobs / 500)
    }

    /// The last responses never arrive: their streams are not above the last id of the GOAWAY, and get no response.
    private static let goAwayUnanswered = Fault(
        number: 32, name: "goaway-cut", title: "GOAWAY, then closed without the responses", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 20...60), proxies: true)
        try trial.startProducing()
        try trial.injectBusy(20, after: 50...300) { _ in
            trial.stage.simulator.goAway()
            trial.pause(1...10)
            try trial.loseAnswers(for: 5...50)
        }
    }

    /// Connections end after a random number of bytes, also within a handshake or a frame.
    private static let reset = Fault(
        number: 33, name: "apns-cut", title: "APNs connections cut after random bytes", rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        let streams = 50
        try trial.open(
            simulator: ["--latency", "5ms..15ms"], proxies: true,
            settings: ["apns_max_concurrent_streams": String(streams), "pool_size": "4"])
        try trial.start()
        let proxy = trial.serviceProxy
        try trial.produce(perSecond: 1000)
        try trial.awaitBusy()
        proxy.behaviour.cutAfter = 1000...300_000
        proxy.cutAll()
        try trial.await("enough are cut", atMost: .seconds(90)) { proxy.cuts >= (trial.scale == .full ? 50 : 5) }
        try trial.inject {
            proxy.behaviour.cutAfter = nil
            proxy.cutAll()
        }
        trial.count(proxy.cuts)
        trial.allowTwice(streams * (proxy.cuts + 8))
    }

    /// Ten connections drop everything without closing, which only a PING reveals; new connections work.
    private static let halfOpen = Fault(
        number: 34, name: "apns-halfopen", title: "APNs half-open, 10 sessions at once", rule: .onlyWhatWasInFlight, stages: 5
    ) { trial in
        try trial.open(
            hosting: Trial.accepting(after: 5...15), proxies: true,
            settings: [
                "pool_size": "10", "apns_max_concurrent_streams": "50", "apns_keepalive": "1", "apns_request_timeout": "4",
            ])
        try trial.start()
        try trial.produce(perSecond: Trial.rate / trial.stages)
        for _ in 1...(trial.scale == .full ? 2 : 1) {
            try trial.await("10 sessions are open") { trial.stage.simulator.totals.openConnections >= 10 }
            try trial.awaitBusy()
            // Responses on the wire are lost with the connection.
            trial.serviceProxy.deadenAll()
            try trial.allowInFlightTwice()
            let noticed = trial.complaints("is closed: ")
            // The daemon sends a PING after four seconds, and waits ten seconds for the response.
            try trial.await("the first PING times out") { trial.complaints("is closed: ") > noticed }
            let start = Instant.now
            try trial.inject {}
            if .now - start > .seconds(30) { trial.fail("\(.now - start) from the first timeout to the usual rate") }
        }
    }

    /// Responses in any order, delayed, and one byte at a time.
    private static let disorder = Fault(
        number: 35, name: "apns-disorder", title: "responses reordered, delayed, one byte at a time", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "0ms..300ms", "--fail", "503:1%"], proxies: true)
        try trial.start()
        try trial.produce(perSecond: 500)
        try trial.injectBusy(20) { turn in
            var behaviour = FaultProxy.Behaviour()
            behaviour.isBytewise = turn % 2 == 0
            behaviour.delay = .milliseconds(trial.draw(0...100))
            trial.serviceProxy.behaviour = behaviour
            trial.pause(50...500)
            trial.serviceProxy.behaviour = .init()
        }
    }

    private static let refusedStreams = Fault(
        number: 36, name: "refused", title: "REFUSED_STREAM, streams lowered to 1 and 0", rule: .nothingTwice, isQuick: true
    ) { trial in
        let share = Script.Share(.resetStream(code: 7), 0.01)
        try trial.open(hosting: Trial.accepting(after: 5...15, [share]))
        try trial.startProducing()
        try trial.injectBusy(10) { _ in
            for limit: UInt32 in [1, 0, 1000] {
                trial.stage.simulator.behave { ($0.streamLimit, $0.tokenStreamLimit) = (limit, max(1, limit)) }
                trial.pause(50...200)
            }
        }
        trial.afterwards = { trial.expectNothingSpent($0, "APNs processed none") }
    }
}

extension Trial {
    /// Drops the responses of APNs for a while, then cuts its connections.
    func loseAnswers(for milliseconds: ClosedRange<Int>) throws {
        serviceProxy.behaviour.swallowsReplies = true
        pause(milliseconds)
        serviceProxy.cutAll()
        serviceProxy.behaviour.swallowsReplies = false
        try allowInFlightTwice()
    }
}

/// Faults of APNs: refused requests, and names that do not resolve.
extension Fault {
    static let refusalRows = [storm, providerTokens, rubbishKey, names]

    /// Bursts of errors; the delays are tenths of a second instead of minutes.
    private static let storm = Fault(
        number: 37, name: "storm", title: "bursts of 429, 500 and 503 to everything", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        try trial.startProducing()
        try trial.injectBusy(10) { turn in
            trial.stage.simulator.behave { $0.script.failures = [.init(.usual([429, 500, 503][turn % 3]), 1)] }
            trial.pause(100...600)
            trial.stage.simulator.behave { $0.script.failures = [] }
        }
        trial.afterwards = { _ in
            try trial.awaitLedger()
            let sends = trial.stage.ledger.statuses
            let dead = Set(try trial.stage.deadLetterCounts().tokens)
            // More sends than four are those of a failing APNs.
            let early = dead.count { sends[$0, default: []].count < 4 }
            if early > 0 { trial.fail("\(early) dead letters before the fourth send") }
        }
    }

    /// The daemon holds the app until the operator reloads; no job is counted or dead-lettered.
    private static let providerTokens = Fault(
        number: 39, name: "provider-token", title: "403 ExpiredProviderToken, InvalidProviderToken", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        let daemon = try trial.startProducing()
        try trial.injectBusy(10, after: 50...200) { turn in
            let holds = trial.complaints("APNs does not accept the credential")
            let reason = turn % 2 == 0 ? "ExpiredProviderToken" : "InvalidProviderToken"
            trial.stage.simulator.behave { $0.script.failures = [.init(.status(403, reason), 1)] }
            try trial.await("the app is held") { trial.complaints("APNs does not accept the credential") > holds }
            trial.stage.simulator.behave { $0.script.failures = [] }
            daemon.process.kill(SIGHUP)
        }
        trial.afterwards = { trial.expectNothingSpent($0, "the credential was refused") }
    }

    private static let rubbishKey = Fault(
        number: 40, name: "rubbish-key", title: "key file replaced by random bytes, then by a good one", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open()
        let daemon = try trial.start()
        let path = trial.stage.folder.file("credentials/AuthKey_SIMKEY0001.p8")
        let good = File.read(path)
        try trial.produce()
        try trial.injectBusy(10) { turn in
            let (refused, reloaded) = (trial.complaints("Reload failed"), trial.reloads(of: daemon))
            let rubbish = ["", String(good.prefix(good.utf8.count / 2)), String(good.reversed()), "\u{0}\u{1}\u{2}"]
            try File.write(rubbish[turn % rubbish.count], to: path)
            daemon.process.kill(SIGHUP)
            try trial.await("the reload is refused") { trial.complaints("Reload failed") > refused }
            try trial.awaitSent(try trial.stage.sent() + 200)
            try File.write(good, to: path)
            daemon.process.kill(SIGHUP)
            try trial.await("the reload succeeds") { trial.reloads(of: daemon) > reloaded }
        }
    }

    /// The host names in a separate mount namespace: a dead address first, only a dead address, and no address.
    private static let names = Fault(
        number: 41, name: "names", title: "DNS fails or returns a dead address", rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        try trial.open(proxies: true)
        let hosts = trial.stage.folder.file("hosts")
        let (good, dead) = ("127.0.0.1 localhost\n", "127.0.0.99 localhost\n")
        try File.write(dead + good, to: hosts)
        try trial.start(under: trial.replacing("/etc/hosts", by: hosts))
        try trial.produce()
        try trial.injectBusy(10) { turn in
            try File.write([dead, "", dead + good][turn % 3], to: hosts)
            trial.serviceProxy.cutAll()
            try trial.allowInFlightTwice()
            trial.pause(100...500)
            try File.write(turn % 2 == 0 ? good : dead + good, to: hosts)
        }
        if trial.scale == .full, trial.complaints("127.0.0.99") == 0 { trial.fail("no daemon tried the dead address") }
    }
}

extension Trial {
    func reloads(of daemon: DaemonProcess) -> Int {
        daemon.standardOutput.split(separator: "\n").count { $0.contains("Reloaded:") }
    }
}
