/// One of the latest pushes: what the client sent, and the answer.
struct RecentPush: Sendable, Equatable {
    /// The most bytes of a header's value that are kept.
    static let headerBytes = 512

    struct Header: Sendable, Equatable {
        var name: String
        var value: String
    }

    /// From 1, in the order of the answers; unique also after a clear.
    var number = 0
    /// Milliseconds since 1970.
    var time: Int64
    var verdict: Verdict
    /// The device token, or the id of a channel.
    var token: String
    var isBroadcast: Bool
    /// Without `authorization`.
    var headers: [Header]
    /// `nil` for a connection with a client certificate.
    var providerToken: ReadableToken?
    /// At most `Request.keptBodyBytes`.
    var payload: [UInt8]
    var payloadLength: Int

    /// Returns the first value of a header.
    func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

extension RecentPush {
    init(_ request: Request, _ verdict: Verdict, time: Int64) {
        let cut = { (bytes: ArraySlice<UInt8>) in String(decoding: bytes.prefix(RecentPush.headerBytes), as: UTF8.self) }
        self.init(
            time: time, verdict: verdict, token: cut(request.token), isBroadcast: request.kind == .broadcast,
            headers: Request.Field.allCases.compactMap { field in
                guard field != .authorization, let value = request[field] else { return nil }
                return Header(name: field.headerName, value: cut(value))
            },
            providerToken: request[.authorization].flatMap { ReadableToken(authorization: $0) }, payload: request.body,
            payloadLength: request.bodyLength)
    }
}

extension Request.Field {
    fileprivate var headerName: String {
        switch self {
        case .method: ":method"
        case .path: ":path"
        case .authorization: "authorization"
        case .topic: "apns-topic"
        case .pushType: "apns-push-type"
        case .priority: "apns-priority"
        case .expiration: "apns-expiration"
        case .apnsID: "apns-id"
        case .collapseID: "apns-collapse-id"
        case .channelID: "apns-channel-id"
        case .requestID: "apns-request-id"
        }
    }
}
