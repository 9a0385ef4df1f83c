@testable import PushPool

/// The APNs of one run: all its connections, and its decision about each request.
final class SimulatedAPNs {
    let world: World
    let ledger: Ledger
    var profile: Profile
    var links: [PushLink] = []
    /// Dials fail before this time.
    var unreachableUntil: Int64 = 0
    /// The response to every request until then: a fault of the credential, or overload.
    private var mood: (status: Int, reason: String, until: Int64)?

    init(_ world: World, _ ledger: Ledger, _ profile: Profile) {
        (self.world, self.ledger, self.profile) = (world, ledger, profile)
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
        let rejection = rejection()
        world.note(.processed, attempt.job, rejection?.status ?? 200)
        guard let rejection else {
            ledger.accepted(attempt)
            return .delivered(apnsID: nil)
        }
        ledger.rejected(attempt)
        return .rejected(rejection)
    }

    private func rejection() -> Rejection? {
        if let mood, world.time < mood.until { return Rejection(status: mood.status, reason: mood.reason) }
        for (status, reason, chance) in profile.rejections where world.chance(chance) {
            return Rejection(status: status, reason: reason)
        }
        return nil
    }
}
