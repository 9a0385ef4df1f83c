/// A complete response with a status other than 2xx.
struct Response: Equatable {
    var status: Int
    var apnsID: String?
    /// The seconds of `retry-after`, 0 to a million.
    var retryAfter: Int?
    /// At most `ResponseBody.mostBytes`.
    var body: [UInt8] = []

    /// The response in the terms of the notification's owner.
    var rejection: Rejection {
        let said = ResponseBody(body)
        return Rejection(
            status: status, reason: said.reason, apnsID: apnsID, timestamp: said.timestamp,
            retryAfter: retryAfter.map { .seconds($0) })
    }
}
