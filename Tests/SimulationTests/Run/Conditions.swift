import Platform
import PushPool
import RedisQueue

@testable import gaplessd

/// The circumstances of one run. Each run has others: few kinds of faults at a time reach deeper than all of them together.
struct Conditions {
    var workers = 1
    var sessions = 2
    var jobs = 500
    /// The time in which the jobs are produced.
    var production: Int64 = 5 * .second
    var redisLatency: ClosedRange<Int64> = 20 * .microsecond...60 * .microsecond
    var profile = Profile()
    /// The mean time between two faults of a kind.
    var faults: [(kind: Fault, interval: Int64)] = []
    /// Whether a worker recognises by its name that another one has ended.
    var sharesMachine = true
    /// How many jobs are pushed at once.
    var burst = 20
    /// Shares of the jobs: for several devices, for later, and with an expiry of seconds.
    var shared = 0.0
    var later = 0.0
    var expiring = 0.0
    /// Share of states (`replaces`), the number of their tokens for each app, and whether APNs' 429 sets their pace.
    var states = 0.0
    var scopes = 1
    var arePaced = false
    var match: Match?
    /// The share of the pushes that are campaigns.
    var campaigns = 0.0
    /// `nil` for the top level, which is alone. Otherwise the last app is the disturbed one.
    var apps: [String?] = [nil]
    var disturbance: Disturbance?

    /// A behaviour of the server of the last app, beside the faults. The jobs of the other apps must end meanwhile.
    struct Disturbance {
        enum Kind: CaseIterable {
            /// 403 to each request.
            case held
            /// It takes requests, and answers none.
            case silent
            /// It answers after seconds.
            case slow
            /// No connection.
            case away
        }

        var kind: Kind
        var begin: Int64
        /// `nil`: until the jobs of the other apps have ended.
        var end: Int64?
    }

    /// Channels with a limit that changes, in place of the jobs of other runs.
    struct Match {
        var channels = 50
        var minutes = 30
        /// Of each channel.
        var updatesPerMinute = 60
        /// Pushes to devices beside them.
        var devices = 20_000
        /// The 429 of a channel has the seconds until it admits updates again.
        var hasRetryAfter = false
        /// The setting `channel_pace`; `nil` for "auto".
        var pace: Duration?
    }

    init(_ match: Match) {
        self.match = match
        workers = 2
        production = Int64(match.minutes) * 60 * .second
        profile.channelLimit = 2...12
        profile.hasRetryAfter = match.hasRetryAfter
        faults = [(.crash, 60 * .second)]
    }

    var plan: DispatchPlan {
        DispatchPlan(
            apps: apps.indices.map { DispatchPlan.App(name: apps[$0], topic: "topic") }, lists: ["q"],
            server: "redis",
            routes: AppRoutes(apps.map { AppRoutes.App(name: $0, topic: "topic") }),
            reader: JobReader(retryLimit: 3, appNames: Set(apps.compactMap(\.self))),
            policy: RetryPolicy(limit: 3, delays: [.seconds(1), .seconds(5)]),
            settling: Settler.Options(), delivery: .atLeastOnce, drainTimeout: .seconds(20),
            certificates: CertificateWatch([], now: 0))
    }

    var pool: PoolSettings { PoolSettings(host: "apns", port: 443, sessions: sessions) }

    init() {}

    init(_ world: World) {
        workers = world.number(in: 1...3)
        sessions = world.number(in: 1...3)
        jobs = [50, 300, 1000, 2000][world.number(in: 0...3)]
        burst = [1, 5, 50, 250][world.number(in: 0...3)]
        production = [0, 2, 10, 40][world.number(in: 0...3)] * .second
        let redis: [ClosedRange<Int64>] = [20...60, 200...900, 5_000...25_000]
        redisLatency = Conditions.microseconds(redis[world.number(in: 0...2)])
        let apns: [ClosedRange<Int64>] = [20...60, 2_000...4_000, 70_000...90_000]
        profile.latency = Conditions.microseconds(apns[world.number(in: 0...2)])
        profile.mostThinking = [1, 50, 200, 2000][world.number(in: 0...3)] * .millisecond
        profile.streams = [1, 4, 16, 100, 1000][world.number(in: 0...4)]
        sharesMachine = world.chance(0.5)
        if world.chance(0.3) { shared = 0.05 }
        if world.chance(0.3) { later = 0.2 }
        if world.chance(0.3) { expiring = 0.2 }
        if world.chance(0.5) { campaigns = [0.2, 1][world.number(in: 0...1)] }
        chooseResponses(world)
        chooseFaults(world)
        if world.chance(0.5) { chooseApps(world) }
        if world.chance(0.4) {
            states = [0.1, 0.5, 1][world.number(in: 0...2)]
            scopes = [1, 5, 50][world.number(in: 0...2)]
            // A pause of two minutes is not a disturbance by another app.
            arePaced = disturbance == nil && world.chance(0.5)
        }
    }

    private mutating func chooseApps(_ world: World) {
        apps = ["alpha", "beta"]
        if world.chance(0.2) { return }
        let begin = world.time(in: 0...production + 2 * .second)
        disturbance = Disturbance(
            kind: Disturbance.Kind.allCases[world.number(in: 0...Disturbance.Kind.allCases.count - 1)], begin: begin,
            end: world.chance(0.3) ? begin + world.time(in: .second...20 * .second) : nil)
    }

    private static func microseconds(_ range: ClosedRange<Int64>) -> ClosedRange<Int64> {
        range.lowerBound * .microsecond...range.upperBound * .microsecond
    }

    private mutating func chooseResponses(_ world: World) {
        let known = [
            (400, "PayloadEmpty"), (400, "BadDeviceToken"), (400, "IdleTimeout"), (410, "Unregistered"), (429, "TooManyRequests"),
            (500, "InternalServerError"), (503, "ServiceUnavailable"), (503, "Shutdown"), (403, "ExpiredProviderToken"),
        ]
        for (status, reason) in known where world.chance(0.3) {
            profile.rejections.append((status, reason, [0.001, 0.01, 0.1][world.number(in: 0...2)]))
        }
        if world.chance(0.2) { profile.ignored = 0.01 }
        if world.chance(0.2) { profile.refused = 0.02 }
        if world.chance(0.2) { profile.reset = 0.02 }
    }

    private mutating func chooseFaults(_ world: World) {
        for kind in Fault.allCases where world.chance(kind.makesForgetful ? 0.15 : 0.2) {
            faults.append((kind, [1, 3, 10][world.number(in: 0...2)] * .second))
        }
    }
}

/// A kind of fault, or of another event that a run injects at random times.
enum Fault: Int, CaseIterable {
    /// SIGKILL of a worker; another one starts later.
    case crash
    /// SIGSTOP for up to two leases.
    case freeze
    /// SIGTERM; another worker starts when it has stopped, or before.
    case stop
    case reload
    case redisCut
    case redisHalfOpen
    case redisReplyLost
    case redisStall
    case redisRestart
    /// FLUSHALL.
    case redisFlush
    /// Redis returns to its state of some seconds ago.
    case redisRollback
    case redisClock
    case scriptFlush
    case pause
    case pushCut
    case pushSilent
    case pushStall
    case goAway
    case goAwayAndCut
    case fewerStreams
    case unreachable
    case overload
    case credential
    case expiredToken

    /// Whether Redis loses data.
    var makesForgetful: Bool { self == .redisFlush || self == .redisRollback }
}
