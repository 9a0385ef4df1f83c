/// The facts about a push that its line contains in the format `json`.
struct LoggedPush: Sendable, Equatable {
    /// Empty for the top level.
    var app: String
    var apnsID: String?
    /// Sends so far.
    var attempt: Int
    var trace: String?
}
