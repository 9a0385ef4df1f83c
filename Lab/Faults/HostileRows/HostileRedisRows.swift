import Harness
import Platform
internal import RedisQueue

/// A Redis that is slow in every way, or replies with any error. The daemon also gets SIGTERM while these faults last.
extension Fault {
    static let hostileRedisRows = [bytewise, slowLink, late, errorReplies]

    private static let bytewise = Fault(
        number: 66, name: "redis-bytewise", title: "Redis sends and reads one byte at a time", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(proxies: true)
        var daemon = try trial.start()
        try trial.produce(perSecond: 200)
        try trial.awaitSent(1)
        for turn in 1...trial.times(10) {
            try trial.inject {
                trial.stage.redisProxy?.behaviour.isBytewise = true
                let sent = try trial.stage.sent()
                try trial.awaitSent(sent + 200)
                if turn % 2 == 0 {
                    try trial.terminate(daemon)
                    daemon = try trial.start()
                }
                trial.stage.redisProxy?.behaviour.isBytewise = false
            }
        }
    }

    /// A claim of 250 such jobs takes four seconds.
    private static let slowLink = Fault(
        number: 67, name: "redis-slow-link", title: "Redis at 1 Mbit/s, jobs of 2 KB", rule: .nothingTwice, stages: 5
    ) { trial in
        try trial.open(proxies: true, settings: ["drain_timeout": "5"])
        guard let proxy = trial.stage.redisProxy else { return }
        (proxy.behaviour.bytesPerSecond, proxy.behaviour.queueBytes) = (125_000, 32 << 10)
        var daemon = try trial.start()
        let jobs = trial.scale == .full ? 600 : 300
        for _ in 1...trial.times(2) {
            let sent = try trial.stage.sent()
            try trial.queue(jobs) { Trial.job($0, bytes: 1900) }
            try trial.inject {
                try trial.awaitSent(sent + jobs / 3)
                try trial.terminate(daemon)
                daemon = try trial.start()
                // 600 jobs of 2 KB pass in ten seconds.
                try trial.awaitSent(sent + jobs, atMost: .seconds(60))
            }
        }
        trial.afterwards = { status in
            let lost = trial.complaints("no response in time")
            if lost > 0 { trial.fail("the daemon gave up \(lost) connections on which bytes moved") }
        }
    }

    /// No reply arrives before the daemon gives up its connection. Some replies arrive after the fault.
    private static let late = Fault(
        number: 68, name: "redis-late", title: "Redis replies 60 s late", rule: .onlyWhatWasInFlight, stages: 5
    ) { trial in
        try trial.open(proxies: true, settings: ["drain_timeout": "2"])
        guard let proxy = trial.stage.redisProxy else { return }
        var siege = try Siege(trial)
        try trial.produce(perSecond: 500)
        for turn in 1...trial.times(2) {
            let noticed = trial.complaints("no response in time")
            let isLong = trial.scale == .full && turn == 1
            try siege.run(stops: turn % 2 == 0, lasting: isLong ? .seconds(62) : .zero) {
                proxy.behaviour.delay = .seconds(60)
            } begun: {
                try trial.await("the daemon notices") { trial.complaints("no response in time") > noticed }
            } end: {
                proxy.behaviour.delay = .zero
            }
        }
    }

    /// Each text in place of the replies to all requests, then to some. Redis does not receive these requests.
    private static let errorReplies = Fault(
        number: 69, name: "redis-errors", title: "every error reply of Redis 6 and 7", rule: .nothingTwice, stages: 5
    ) { trial in
        try trial.open(proxies: true)
        guard let proxy = trial.stage.redisProxy else { return }
        proxy.behaviour.refusals = [""]
        let daemon = try trial.start()
        try trial.produce(perSecond: 300)
        try trial.awaitSent(1)
        let texts = RedisErrorTexts.all
        for place in stride(from: trial.place, to: texts.count, by: trial.stages * (trial.scale == .full ? 1 : texts.count / 5)) {
            try trial.inject {
                for share in [1, 0.2] {
                    let refused = proxy.refused
                    (proxy.behaviour.refusals, proxy.behaviour.refusedShare) = ([texts[place]], share)
                    try trial.await("Redis refuses with '\(texts[place])'") { proxy.refused > refused }
                    trial.pause(0...300)
                }
                proxy.behaviour.refusedShare = 0
            }
            if let exit = daemon.process.poll() {
                throw TrialError(description: "gaplessd exited with \(exit) after '\(texts[place])':\n\(trial.logs)")
            }
        }
    }
}
