/// Broadcast channels: what an app has made of them, and Apple's rules for both ("Sending channel management requests to
/// APNs", "Sending broadcast push notification requests to APNs").
struct Channels {
    /// What is said about a request that manages channels.
    struct Reply {
        var status: Int
        /// JSON; empty for none.
        var body: [UInt8] = []
        /// `apns-channel-id`.
        var channelID: [UInt8]?
    }

    /// Per app and environment.
    static let limit = 10_000
    static let payloadLimit = 5120

    /// Bundle ids that may broadcast; empty is all.
    let enabled: [String]
    /// Channel ids to their `message-storage-policy`: 0 stores nothing, 1 the latest message.
    private var apps: [String: [String: Int64]] = [:]

    init(enabled: [String]) { self.enabled = enabled }

    mutating func add(_ id: String, app: String, storagePolicy: Int64) { apps[app, default: [:]][id] = storagePolicy }

    /// Why APNs would not take a broadcast whose credential and id are good.
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

    /// Creates, reads, deletes or lists.
    mutating func manage(_ request: Request, _ random: inout SeededRandom) -> Result<Reply, Refusal> {
        guard let app = request.app else { return .failure(Refusal(.badPath)) }
        if !enabled.isEmpty && !enabled.contains(app) { return .failure(Refusal(.featureNotEnabled)) }
        switch (request.kind, request.text(.method)) {
        case (.allChannels, _): return .success(list(app))
        case (_, "POST"): return create(request, app, &random)
        case (_, let method): return readOrDelete(request, app, deletes: method == "DELETE")
        }
    }

    private func list(_ app: String) -> Reply {
        let ids = (apps[app] ?? [:]).keys.sorted().map(Totals.quoted).joined(separator: ",")
        return Reply(status: 200, body: Array("{\"channels\":[\(ids)]}".utf8))
    }

    private mutating func create(_ request: Request, _ app: String, _ random: inout SeededRandom) -> Result<Reply, Refusal> {
        guard request.bodyLength <= Channels.payloadLimit, let body = FlatJSON(request.body) else {
            return .failure(Refusal(.badRequestPayload))
        }
        guard let type = body.string("push-type") else { return .failure(Refusal(.missingPushType)) }
        guard type.lowercased() == "liveactivity" else { return .failure(Refusal(.invalidPushType)) }
        guard let policy = body.integer("message-storage-policy"), (0...1).contains(policy) else {
            return .failure(Refusal(.badRequestPayload))
        }
        guard (apps[app] ?? [:]).count < Channels.limit else { return .failure(Refusal(.cannotCreateChannelConfig)) }
        let id = Channels.makeID(&random)
        add(id, app: app, storagePolicy: policy)
        return .success(Reply(status: 201, channelID: Array(id.utf8)))
    }

    private mutating func readOrDelete(_ request: Request, _ app: String, deletes: Bool) -> Result<Reply, Refusal> {
        if request.bodyLength > 0 { return .failure(Refusal(.badRequestParams)) }
        guard let id = request.text(.channelID), !id.isEmpty else { return .failure(Refusal(.missingChannelId)) }
        guard Channels.isChannelID(id) else { return .failure(Refusal(.badChannelId)) }
        guard let policy = apps[app]?[id] else { return .failure(Refusal(.channelNotRegistered)) }
        if deletes {
            apps[app]?[id] = nil
            return .success(Reply(status: 204))
        }
        return .success(
            Reply(status: 200, body: Array(#"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"#.utf8)))
    }

    /// 16 random bytes in base64. Apple says that the size is not known.
    private static func makeID(_ random: inout SeededRandom) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        // The last digit of 128 bits stands for two of them.
        let digits = (0..<22).map { alphabet[Int(random.next() % 64) & ($0 == 21 ? 0x30 : 0x3F)] }
        return String(decoding: digits, as: UTF8.self) + "=="
    }

    /// base64 with padding, up to 1,000 characters.
    static func isChannelID(_ text: String) -> Bool {
        let digits = text.utf8.prefix { $0.isLetter || $0.isDecimalDigit || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") }
        let padding = text.utf8.dropFirst(digits.count)
        return text.utf8.count % 4 == 0 && text.utf8.count <= 1000 && digits.count > 0 && padding.count <= 2
            && padding.allSatisfy { $0 == UInt8(ascii: "=") }
    }
}

extension Request.Kind {
    /// Whether its path knows an HTTP method.
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

    /// Looks for a path that is not a device's, and takes what it needs out of it.
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
    /// Why this credential may not speak for the bundle id in a path: it names the app itself, without suffix.
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
