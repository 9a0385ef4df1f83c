internal import Glibc
internal import Threads

/// The one provider token of a team and key, for all sessions of all pools. Any thread.
final class ProviderTokenSource: Sendable {
    private struct State {
        var schedule: TokenSchedule
        var token: ProviderToken?
    }

    private struct Name: Hashable {
        var keyID: String
        var teamID: String
        var fingerprint: [UInt8]
    }

    /// One for each key this process has seen. A key's source outlives its credential: a reload does not mint anew.
    private static let all = Locked<[Name: ProviderTokenSource]>([:])

    static func shared(for key: SigningKey) -> ProviderTokenSource {
        let name = Name(keyID: key.keyID, teamID: key.teamID, fingerprint: key.fingerprint)
        return all.withLock { all in
            if let known = all[name] { return known }
            let source = ProviderTokenSource(key)
            all[name] = source
            return source
        }
    }

    private let key: SigningKey
    private let state: Locked<State>

    /// - Parameters:
    ///   - token: what an earlier process left, minted at `mintedAt` on this machine's monotonic clock.
    init(_ key: SigningKey, token: ProviderToken? = nil, mintedAt: ContinuousClock.Instant? = nil) {
        self.key = key
        state = Locked(State(schedule: TokenSchedule(mintedAt: mintedAt), token: token))
    }

    /// The token to send now, minted if it is due. `nil` only if there is none and OpenSSL will not sign.
    func token(
        forNewSession: Bool, now: ContinuousClock.Instant = .now, unixTime: Int64 = Int64(time(nil))
    ) -> ProviderToken? {
        state.withLock { state in
            if state.schedule.isDue(forNewSession: forNewSession, now: now) { mint(&state, now, unixTime) }
            return state.token
        }
    }

    /// APNs called the token expired. The generation of the token to go on with, which is another one than
    /// `generation`; `nil` where it is too soon for another.
    func renew(
        after generation: UInt64, now: ContinuousClock.Instant = .now, unixTime: Int64 = Int64(time(nil))
    ) -> UInt64? {
        state.withLock { state in
            // Another pool, or the schedule, was quicker.
            if let token = state.token, token.generation > generation { return token.generation }
            guard state.schedule.mayRenew(now: now), mint(&state, now, unixTime) else { return nil }
            return state.token?.generation
        }
    }

    /// APNs answered 429 `TooManyProviderTokenUpdates`.
    func updatesRefused(now: ContinuousClock.Instant = .now) {
        state.withLock { $0.schedule.updatesRefused(now: now) }
    }

    func age(now: ContinuousClock.Instant) -> Duration? {
        state.withLock { state in state.schedule.mintedAt.map { now - $0 } }
    }

    @discardableResult
    private func mint(_ state: inout State, _ now: ContinuousClock.Instant, _ unixTime: Int64) -> Bool {
        let generation = (state.token?.generation ?? 0) + 1
        let token = ProviderToken(
            keyID: key.keyID, teamID: key.teamID, issuedAt: unixTime, generation: generation, sign: key.sign)
        guard let token else { return false }
        state.token = token
        state.schedule.minted(now: now)
        return true
    }
}
