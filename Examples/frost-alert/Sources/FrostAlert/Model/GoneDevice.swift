import Foundation

/// A device that has removed the app, by an entry of the feedback list.
struct GoneDevice: Equatable, Sendable {
    var token: DeviceToken
    /// The time at which APNs found that the token is not valid any more. A later registration counts.
    var since: Date
}

extension GoneDevice {
    /// Reads an entry. Returns `nil` for an entry that says nothing certain: a suspect token, or a 410 without a time.
    init?(feedback entry: Data) {
        struct Entry: Decodable {
            var token: String
            var verdict: String
            var timestamp: Double?
        }
        guard let entry = try? JSONDecoder().decode(Entry.self, from: entry), entry.verdict == "dead",
            let token = DeviceToken(entry.token), let milliseconds = entry.timestamp
        else { return nil }
        self.init(token: token, since: Date(timeIntervalSince1970: milliseconds / 1000))
    }
}
