import JSONBytes
import RedisQueue

/// A pause in words: what is paused, until when, by whom and why.
struct PauseNote: Sendable, Equatable {
    /// The name of the top-level app in `--app` and in the hash of pauses.
    static let topLevel = "(top level)"

    /// The app; `nil` for the whole list or a campaign.
    var app: String?
    var campaign: String?
    /// Milliseconds since 1970; `nil` for a pause without an end.
    var until: Int64?
    var since: Int64?
    var reason: String?
    var by: String?

    init(_ pause: QueuePause) {
        switch pause.scope {
        case .list: break
        case .app(let name): app = name
        case .campaign(let name): campaign = name
        }
        guard let record = try? JSONValue.parse(pause.record) else { return }
        until = record["until"]?.integerValue.flatMap { $0 > 0 ? $0 : nil }
        since = record["since"]?.integerValue
        reason = record["reason"]?.stringValue
        by = record["by"]?.stringValue
    }

    /// `paused until 2026/11/20 22:50:01 +01:00 by root@host: bad campaign`.
    var sentence: String {
        "paused" + (until.map { " until \(LocalTime.zoned($0 / 1000))" } ?? "") + (by.map { " by \($0)" } ?? "")
            + (reason.map { ": \($0)" } ?? "")
    }

    /// `app news: ` or nothing, and the sentence.
    var scopedSentence: String {
        (app.map { "app \($0): " } ?? campaign.map { "campaign \($0): " } ?? "") + sentence
    }

    /// Whether it stops the app of this name; `nil` is the top level.
    func stops(app name: String?) -> Bool { campaign == nil && (app == nil || app == name ?? Self.topLevel) }
}
