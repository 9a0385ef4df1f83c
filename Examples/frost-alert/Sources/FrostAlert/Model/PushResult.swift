/// The final outcome of one push: an entry of the stream `redis_results_key`.
struct PushResult: Equatable, Sendable {
    /// The id of the entry. The stream is read from here on.
    var id: String
    /// The number of the alert; `nil` for a job of another producer.
    var alert: Int64?
    var token: DeviceToken?
    /// The status of APNs; `nil` without a response.
    var status: Int?
    var reason: String?
}

extension PushResult {
    /// - Parameter fields: by name; an unknown value is empty.
    init(id: String, fields: [String: String]) {
        self.id = id
        alert = fields["identifier"].flatMap(Int64.init)
        token = fields["token"].flatMap(DeviceToken.init)
        status = fields["status"].flatMap(Int.init)
        reason = fields["reason"].flatMap { $0.isEmpty ? nil : $0 }
    }
}
