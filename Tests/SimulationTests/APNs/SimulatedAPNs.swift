@testable import PushPool

/// The APNs of one app: all its connections, and its decision about each request.
final class SimulatedAPNs {
    let world: World
    let ledger: Ledger
    /// The index of the app.
    let app: Int
    /// The disturbance that has begun.
    private var disturbance: Conditions.Disturbance.Kind?
    var profile: Profile
    var links: [PushLink] = []
    /// Dials fail before this time.
    var unreachableUntil: Int64 = 0
    /// The response to every request until then: a fault of the credential, or overload.
    private var mood: (status: Int, reason: String, until: Int64)?

    init(_ world: World, _ ledger: Ledger, _ profile: Profile, app: Int) {
        (self.world, self.ledger, self.profile, self.app) = (world, ledger, profile, app)
    }

    // MARK: The disturbance

    func disturb(_ kind: Conditions.Disturbance.Kind) {
        disturbance = kind
        if kind == .away { for link in links { link.cut() } }
    }

    func endDisturbance() { disturbance = nil }

    var refusesDials: Bool { world.time < unreachableUntil || disturbance == .away }
    var isSilent: Bool { disturbance == .silent }

    /// The time from a request to its response.
    func thinking() -> Int64 {
        disturbance == .slow ? world.time(in: 3 * .second...12 * .second) : world.skewed(upTo: profile.mostThinking)
    }

    func change(to status: Int, _ reason: String, for pause: Int64) { mood = (status, reason, world.time + pause) }

    /// The faults end, and responses are fast, so that every list ends in time.
    func calm() {
        profile.latency = Profile().latency
        profile.mostThinking = Profile().mostThinking
        profile.rejections = []
        profile.ignored = 0
        profile.refused = 0
        profile.reset = 0
        mood = nil
        unreachableUntil = 0
        for link in links { link.changeStreams(to: profile.streams) }
    }

    func judge(_ attempt: Ledger.Attempt) -> Outcome {
        if ledger.jobs[attempt.job].app != app { world.fail("the request went to another app", job: attempt.job) }
        let rejection = overLimit(attempt) ?? rejection()
        world.note(.processed, attempt.job, rejection?.status ?? 200)
        guard let rejection else {
            ledger.accepted(attempt)
            return .delivered(apnsID: nil)
        }
        ledger.rejected(attempt)
        return .rejected(rejection)
    }

    // MARK: Limits of channels

    /// The minutes of the channels: when one began, what it admits and what it has admitted.
    struct Minute {
        var begin: Int64
        var limit: Int
        var count = 0
    }

    /// By the channel.
    private(set) var minutes: [Int: [Minute]] = [:]
    private(set) var refused = 0

    private func overLimit(_ attempt: Ledger.Attempt) -> Rejection? {
        guard let limits = profile.channelLimit, let scope = ledger.jobs[attempt.job].scope else { return nil }
        var minutes = minutes[scope] ?? [Minute(begin: 0, limit: world.number(in: limits))]
        defer { self.minutes[scope] = minutes }
        while let last = minutes.last, world.time >= last.begin + 60 * .second {
            minutes.append(Minute(begin: last.begin + 60 * .second, limit: world.number(in: limits)))
        }
        let last = minutes.count - 1
        if minutes[last].count >= minutes[last].limit {
            refused += 1
            // A Retry-After has whole seconds.
            let left = (minutes[last].begin + 60 * .second - world.time + .second - 1) / .second
            return Rejection(
                status: 429, reason: "TooManyRequests", retryAfter: profile.hasRetryAfter ? .seconds(left) : nil)
        }
        minutes[last].count += 1
        return nil
    }

    private func rejection() -> Rejection? {
        if disturbance == .held { return Rejection(status: 403, reason: "InvalidProviderToken") }
        if let mood, world.time < mood.until { return Rejection(status: mood.status, reason: mood.reason) }
        for (status, reason, chance) in profile.rejections where world.chance(chance) {
            return Rejection(status: status, reason: reason)
        }
        return nil
    }
}

/// The behaviour of the simulated APNs, in probabilities for each request.
struct Profile {
    /// Times for one direction, and for a response.
    var latency: ClosedRange<Int64> = 50 * .microsecond...200 * .microsecond
    var mostThinking: Int64 = 5 * .millisecond
    var streams = 1000
    /// Updates that a channel admits in a minute: another number each minute.
    var channelLimit: ClosedRange<Int>?
    /// The 429 above this limit has a Retry-After.
    var hasRetryAfter = false
    /// Status and reason, with their probabilities.
    var rejections: [(status: Int, reason: String, chance: Double)] = []
    /// The server reads a request and never answers it.
    var ignored = 0.0
    /// RST_STREAM with REFUSED_STREAM.
    var refused = 0.0
    /// RST_STREAM with INTERNAL_ERROR, of a request that may have been processed.
    var reset = 0.0
}
