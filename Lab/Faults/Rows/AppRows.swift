import APNSSimulator
import Harness
import Platform
internal import RedisQueue

/// One app of a list is disturbed, and the others are not.
extension Fault {
    static let appRows = [disturbedApp, waitingJobs, undueTokens, sideListsDuringUpgrade]

    /// The producer pushes jobs of the first app behind a backlog of the second, and the second is disturbed: nine tenths of the
    /// arriving jobs are still sent, and afterwards every waiting job is, once.
    private static let disturbedApp = Fault(
        number: 78, name: "app-silent", title: "one app silent, slow, away, refused, throttled, failing, dead, paused",
        rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        try trial.openForApps()
        try trial.start()
        try trial.queue(100) { Trial.job($0, app: "second") }
        try trial.produce(from: DisturbedApp.firstOfOthers)
        try trial.awaitSent(200)
        for kind in Disturbance.allCases.shuffled(using: &trial.random).prefix(trial.times(Disturbance.allCases.count)) {
            try trial.queue(trial.jobs(10_000)) { Trial.job($0, app: "second") }
            try trial.disturb(kind)
            // Less than a slow response takes: the arriving jobs do not wait for one.
            try trial.inject(backWithin: .seconds(10)) {}
            trial.pause(.seconds(trial.scale == .full ? 10 : 2))
            // Still, when the disturbance is no longer new.
            try trial.inject(backWithin: .seconds(10)) {}
            // A request without a response may have been accepted.
            try trial.allowInFlightTwice()
            try trial.disturb(nil)
            try trial.await("the waiting jobs are sent", atMost: .seconds(300), every: .milliseconds(50)) {
                try trial.status().backlog < Trial.rate
            }
        }
    }

    /// Jobs of apps that cannot send wait, and an app without jobs is the only other one.
    private static let waitingJobs = Fault(
        number: 79, name: "app-waits", title: "jobs of an unreachable and of a refused app wait", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        try trial.openForApps(redis: ["--appendonly", "yes", "--appendfsync", "everysec"])
        try trial.start()
        for turn in 0..<(trial.scale == .full ? 10 : 2) {
            try trial.disturb(turn % 2 == 0 ? .unreachable : .credential)
            try trial.queue(trial.jobs(50_000)) { Trial.job($0, app: "second") }
            try trial.inject {
                try trial.await("the daemon has stopped to move them", atMost: .seconds(60), every: .milliseconds(200)) {
                    try trial.isQuiet(for: .seconds(1))
                }
                let length = Duration.seconds(trial.scale == .full ? 10 : 3)
                let before = (try trial.stage.activity(), Instant.now)
                trial.pause(length)
                let after = try trial.stage.activity()
                let seconds = (Instant.now - before.1) / .seconds(1)
                let commands = Double(after.commands - before.0.commands) / seconds
                let bytes = Double(after.logBytes - before.0.logBytes) / seconds
                if commands > 100 { trial.fail("\(Int(commands)) commands per second while jobs wait; at most 100 are allowed") }
                if bytes > 100_000 { trial.fail("\(Int(bytes)) bytes of append-only file per second while jobs wait") }
            }
            try trial.allowInFlightTwice()
            try trial.disturb(nil)
            try trial.awaitDrained("the waiting jobs are sent", atMost: .seconds(300), every: .milliseconds(50))
        }
    }

    /// A job for many devices that is not due, or whose app cannot send, stays one job.
    private static let undueTokens = Fault(
        number: 80, name: "tokens-wait", title: "jobs for 40,000 devices that may not go out, under maxmemory",
        rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.openForApps(redis: ["--maxmemory", trial.scale == .full ? "100mb" : "32mb"])
        try trial.start()
        try trial.queue(100)
        try trial.awaitDrained("the daemon works")
        let count = trial.scale == .full ? 40_000 : 4000
        let devices = (0..<count).map { #""\#(deviceToken(1_000_000 + $0))""# }.joined(separator: ",")
        let data = #"{"aps":{"alert":"\#(String(repeating: "x", count: 3900))"}}"#
        let soon = #""not_before":4102444800"#
        let extras = [soon, #""app":"second""#, soon + #","app":"second""#]
        try trial.injectAgain(10) { turn in
            let extra = extras[turn % extras.count]
            try trial.disturb(.unreachable)
            let job = #"{"tokens":[\#(devices)],"data":\#(data),\#(extra)}"#
            let before = try trial.usedMemory()
            try trial.stage.push([job])
            try trial.await("the job has its place") { try trial.status().inFlight == 0 }
            for _ in 1...trial.times(20) {
                // Another job passes.
                try trial.queue(50)
                trial.pause(100...200)
            }
            let grown = try trial.usedMemory() - before
            if grown > 10 * job.utf8.count + (1 << 20) {
                trial.fail("a job of \(job.utf8.count) bytes needs \(grown) bytes in Redis")
            }
            // An operator cancels it: the trial does not count its devices.
            try trial.stage.command(["DEL", trial.stage.keys.list, trial.stage.keys.delayed])
            let aside = try trial.stage.command(["KEYS", "*gapless:aside*"]).items?.compactMap(\.text) ?? []
            if !aside.isEmpty { try trial.stage.command(["DEL"] + aside) }
            try trial.disturb(nil)
        }
    }

    /// A daemon of an older version, which knows no side lists, works beside daemons of this version that come and go.
    private static let sideListsDuringUpgrade = Fault(
        number: 84, name: "upgrade-aside", title: "side lists during a rolling upgrade, kill -9 of both versions",
        rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        guard let older = trial.older else {
            throw TrialNotPossibleError(description: "it needs an older daemon (scripts/older-daemon, or --older PATH)")
        }
        try trial.openForApps()
        var old = try trial.start("old-0", program: older)
        try trial.queue(100) { Trial.job($0, app: "second") }
        try trial.produce(from: DisturbedApp.firstOfOthers)
        try trial.awaitSent(200)
        for turn in 1...(trial.scale == .full ? 6 : 1) {
            try trial.disturb(.unreachable)
            try trial.queue(trial.jobs(5_000)) { Trial.job($0, app: "second") }
            var new = try trial.start("new-\(turn)")
            try trial.await("jobs are set aside") { try trial.jobsAside() > 0 }
            // Killed, it leaves its side list to the next one; stopped, it returns it to the list, where the old one finds it.
            try trial.allowInFlightTwice()
            try trial.inject { turn % 2 == 1 ? trial.kill(new) : try trial.terminate(new) }
            if turn % 2 == 0 { try trial.await("the side list has returned") { try trial.jobsAside() == 0 } }
            new = try trial.start("next-\(turn)")
            try trial.allowInFlightTwice()
            try trial.inject { trial.kill(old) }
            try trial.await("the jobs of the old one are taken over", atMost: .seconds(60)) {
                try trial.status().workers.count == 1
            }
            try trial.disturb(nil)
            try trial.await("the waiting jobs are sent", atMost: .seconds(300), every: .milliseconds(50)) {
                try trial.status().backlog < Trial.rate
            }
            old = try trial.start("old-\(turn)", program: older)
            try trial.inject { try trial.terminate(new) }
        }
    }
}

extension Trial {
    fileprivate static func job(_ number: Int, app: String) -> String {
        #"{"token":"\#(deviceToken(number))","app":"\#(app)","identifier":\#(number),"data":{"aps":{"alert":"\#(number)"}}}"#
    }

    /// Opens a simulator behind a proxy that only the second app uses.
    fileprivate func openForApps(redis: [String] = []) throws {
        try open(
            hosting: Trial.accepting(after: 1...5), redis: redis,
            settings: [
                "retry_delays": "[5]", "retry_limit": "100", "apns_request_timeout": scale == .full ? "60" : "20",
            ])
        let second = try DisturbedApp("second", of: stage, seed: seed)
        secondApp = second
        try write(settings: ["apps": #"{"second": \#(second.settings)}"#])
    }

    /// Disturbs the second app, or ends that.
    fileprivate func disturb(_ kind: Disturbance?) throws {
        if let secondApp { try stage.disturb(secondApp, by: kind) }
    }

    fileprivate func jobsAside() throws -> Int { try status().asides.values.reduce(0, +) }

    /// Whether Redis has run few commands in this time.
    fileprivate func isQuiet(for time: Duration) throws -> Bool {
        let before = try stage.activity().commands
        pause(time)
        return try stage.activity().commands - before < 200
    }

    fileprivate func usedMemory() throws -> Int { try info("memory", "used_memory") }
}
