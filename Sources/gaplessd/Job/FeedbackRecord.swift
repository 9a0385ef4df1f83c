internal import JSONBytes
import PushPool

/// A response of APNs that rejects a token: one element of the list `feedback`.
struct FeedbackRecord: Sendable, Equatable {
    var token: String
    var topic: String?
    var reason: String
    var status: Int
    /// Milliseconds since 1970, from a 410.
    var timestamp: Int64?
    /// The JSON of an integer or a string.
    var identifier: [UInt8]?
    var verdict: TokenVerdict

    func record() -> [UInt8] {
        var object = RecordWriter(capacity: 512)
        object.add("token", text: token)
        object.add("topic", text: topic)
        object.add("reason", text: reason)
        object.add("status", number: Int64(status))
        object.add("timestamp", number: timestamp)
        object.add("identifier", json: identifier)
        object.add("verdict", text: verdict.rawValue)
        return object.finish()
    }
}
