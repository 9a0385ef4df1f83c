import JSONBytes

/// The broadcast channels of the apps, and Apple's rules for channels and broadcasts ("Sending channel management requests to
/// APNs", "Sending broadcast push notification requests to APNs").
public struct Channels {
    /// The answer to a channel management request.
    struct Reply {
        var status: Int
        /// JSON, or empty.
        var body: [UInt8] = []
        /// `apns-channel-id`.
        var channelID: [UInt8]?
    }

    /// The fault of a channel management request.
    struct RequestError: Error {
        let reason: Reason
        init(_ reason: Reason) { self.reason = reason }
    }

    /// Apple's maximum number of channels per app and environment.
    public static let limit = 10_000
    static let payloadLimit = 5120

    /// The bundle ids that may broadcast. Empty: all.
    let enabled: [String]
    /// Maximum number of channels per app.
    var limit = Channels.limit
    /// The `message-storage-policy` of each channel id: 0 stores nothing, 1 the latest message.
    private var apps: [String: [String: Int64]] = [:]

    init(enabled: [String]) { self.enabled = enabled }

    mutating func add(_ id: String, app: String, storagePolicy: Int64) { apps[app, default: [:]][id] = storagePolicy }

    /// Returns the fault of a broadcast with a valid credential and id.
    func fault(of request: Request) -> Reason? {
        guard let app = request.app else { return .badPath }
        guard let channel = request.text(.channelID), !channel.isEmpty else { return .missingChannelId }
        guard let type = request.text(.pushType) else { return .missingPushType }
        guard type.lowercased() == "liveactivity" else { return .invalidPushType }
        if !enabled.isEmpty && !enabled.contains(app) { return .featureNotEnabled }
        guard let expiration = request.number(.expiration) else { return .badExpirationDate }
        if request.range(of: .priority) != nil, ![1, 5, 10].contains(request.number(.priority)) { return .badPriority }
        guard Channels.isChannelID(channel) else { return .badChannelId }
        guard let policy = apps[app]?[channel] else { return .channelNotRegistered }
        if policy == 0 && expiration != 0 { return .badExpirationDate }
        if request.bodyLength == 0 { return .payloadEmpty }
        return request.bodyLength > Channels.payloadLimit ? .payloadTooLarge : nil
    }

    /// Creates, reads, deletes or lists channels.
    mutating func manage(_ request: Request, _ random: inout SeededRandom) throws(RequestError) -> Reply {
        guard let app = request.app else { throw RequestError(.badPath) }
        if !enabled.isEmpty && !enabled.contains(app) { throw RequestError(.featureNotEnabled) }
        switch (request.kind, request.text(.method)) {
        case (.allChannels, _): return list(app)
        case (_, "POST"): return try create(request, app, &random)
        case (_, let method): return try readOrDelete(request, app, deletes: method == "DELETE")
        }
    }

    private func list(_ app: String) -> Reply {
        let ids = (apps[app] ?? [:]).keys.sorted().map(\.quotedJSON).joined(separator: ",")
        return Reply(status: 200, body: Array("{\"channels\":[\(ids)]}".utf8))
    }

    private mutating func create(_ request: Request, _ app: String, _ random: inout SeededRandom) throws(RequestError) -> Reply {
        guard request.bodyLength <= Channels.payloadLimit, let body = try? JSONValue.parse(request.body),
            case .object = body
        else {
            throw RequestError(.badRequestPayload)
        }
        guard let type = body["push-type"]?.stringValue else { throw RequestError(.missingPushType) }
        guard type.lowercased() == "liveactivity" else { throw RequestError(.invalidPushType) }
        guard let policy = body["message-storage-policy"]?.integerValue, (0...1).contains(policy) else {
            throw RequestError(.badRequestPayload)
        }
        guard (apps[app] ?? [:]).count < limit else { throw RequestError(.cannotCreateChannelConfig) }
        let id = Channels.makeID(&random)
        add(id, app: app, storagePolicy: policy)
        return Reply(status: 201, channelID: Array(id.utf8))
    }

    private mutating func readOrDelete(_ request: Request, _ app: String, deletes: Bool) throws(RequestError) -> Reply {
        if request.bodyLength > 0 { throw RequestError(.badRequestParams) }
        guard let id = request.text(.channelID), !id.isEmpty else { throw RequestError(.missingChannelId) }
        guard Channels.isChannelID(id) else { throw RequestError(.badChannelId) }
        guard let policy = apps[app]?[id] else { throw RequestError(.channelNotRegistered) }
        if deletes {
            apps[app]?[id] = nil
            return Reply(status: 204)
        }
        return Reply(status: 200, body: Array(#"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"#.utf8))
    }

    /// Returns 16 random bytes in base64. Apple does not document the size.
    private static func makeID(_ random: inout SeededRandom) -> String {
        let bytes = (0..<16).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        return String(decoding: Base64.encode(bytes), as: UTF8.self)
    }

    /// Returns whether the text is base64 with padding, of up to 1,000 characters.
    static func isChannelID(_ text: String) -> Bool {
        (1...1000).contains(text.utf8.count) && Base64.decode(Array(text.utf8)) != nil
    }
}

extension Request.Kind {
    /// Returns whether the path accepts an HTTP method.
    func takes(_ method: Span<UInt8>) -> Bool {
        switch self {
        case .device, .broadcast: method.equals("POST")
        case .channels: method.equals("POST") || method.equals("GET") || method.equals("DELETE")
        case .allChannels: method.equals("GET")
        }
    }
}

extension Request {
    private static let broadcastPath = Array("/4/broadcasts/apps/".utf8)
    static let channelPath = Array("/1/apps/".utf8)

    var app: String? { appRange.map { String(decoding: bytes[$0], as: UTF8.self) } }

    func number(_ field: Field) -> Int64? { range(of: field).flatMap { bytes.span.extracting($0).decimal } }

    /// Parses the path of a broadcast or of a channel management request.
    mutating func findChannelPath() {
        guard let path = range(of: .path) else { return }
        let text = bytes[path]
        if text.starts(with: Request.broadcastPath), text.count > Request.broadcastPath.count {
            kind = .broadcast
            appRange = path.lowerBound + Request.broadcastPath.count..<path.upperBound
            tokenRange = range(of: .channelID)
        } else if text.starts(with: Request.channelPath) {
            for (suffix, found) in [("/channels", Kind.channels), ("/all-channels", .allChannels)] {
                let end = path.upperBound - suffix.utf8.count
                guard end > path.lowerBound + Request.channelPath.count, text.ends(with: Array(suffix.utf8)) else { continue }
                kind = found
                appRange = path.lowerBound + Request.channelPath.count..<end
            }
        }
        if kind != .device { adoptID() }
    }
}

extension RequestValidator {
    /// Returns the fault of a credential for the bundle id in a path, which has no suffix.
    func appFault(_ request: Request, _ peer: Peer) -> Reason? {
        guard let range = request.appRange else { return .badPath }
        let app = request.bytes.span.extracting(range)
        for type in RequestValidator.pushTypes
        where !type.topicSuffix.isEmpty && request.bytes[range].ends(with: type.topicSuffix) {
            return .topicDisallowed
        }
        if let certificate = peer.certificate {
            guard certificate.topics.contains(where: { app.equals($0) }) else { return .topicMismatch }
        } else if let key = peer.tokens.key, !key.allows(topic: app) {
            return .topicMismatch
        }
        return known(app) ? nil : .topicDisallowed
    }
}

extension ArraySlice<UInt8> {
    fileprivate func ends(with suffix: [UInt8]) -> Bool {
        count >= suffix.count && self.suffix(suffix.count).elementsEqual(suffix)
    }
}
