import Platform

@testable import PushPool

/// The file that stores a provider token for other processes.
enum TokenFuzz {
    static func run(_ bytes: [UInt8]) throws {
        guard let saved = SavedToken(text: bytes) else { return }
        try BrokenPromise.unless(SavedToken(text: saved.text) == saved, "the file is written as another one")
        for unixTime in [Int64(0), 1_700_000_000, 253_402_300_799] {
            let moment = Moment(now: .now, unixTime: unixTime)
            guard let schedule = TokenSchedule(saved, at: moment) else { continue }
            let token = ProviderToken(bytes: saved.bytes, issuedAt: saved.issuedAt, generation: 1, mintedAt: moment.now)
            _ = schedule.isDue(forNewSession: true, now: moment.now)
            _ = schedule.mayRenew(now: moment.now)
            _ = schedule.saved(token, at: moment)
        }
    }
}
