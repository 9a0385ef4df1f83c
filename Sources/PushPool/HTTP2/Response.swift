/// An answer other than 200, as it came.
struct Response: Equatable {
    var status: Int
    var apnsID: String?
    /// `retry-after` in seconds, 0 to a million.
    var retryAfter: Int?
    /// At most `ResponseBody.mostBytes`.
    var body: [UInt8] = []

    /// What the notification's owner is told.
    var rejection: Rejection {
        let said = ResponseBody(body)
        return Rejection(
            status: status, reason: said.reason, apnsID: apnsID, timestamp: said.timestamp,
            retryAfter: retryAfter.map { .seconds($0) })
    }
}
