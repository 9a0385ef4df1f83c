/// Validates a request in this order and returns the first fault: repeated header, method, path, credential, `apns-id`, topic,
/// push type, the pair of both, priority, expiration, collapse id, device token, payload. `Channels` validates broadcasts and
/// channel management after the id.
///
/// Apple does not document its order. Here, a client without a valid credential learns nothing about the request.
struct RequestValidator {
    /// The push types and the suffix of each in the topic ("Sending notification requests to APNs").
    static let pushTypes: [(name: [UInt8], topicSuffix: [UInt8])] = [
        ("alert", ""), ("background", ""), ("voip", ".voip"), ("complication", ".complication"),
        ("fileprovider", ".pushkit.fileprovider"), ("mdm", ""), ("location", ".location-query"),
        ("liveactivity", ".push-type.liveactivity"), ("pushtotalk", ".voip-ptt"),
        ("widgets", ".push-type.widgets"), ("controls", ".push-type.controls"),
    ].map { (Array($0.utf8), Array($1.utf8)) }

    static let payloadLimit = 4096
    static let voipPayloadLimit = 5120
    static let collapseIDLimit = 64
    /// Apple states that the length is not fixed, and documents no limit.
    static let tokenDigitLimit = 1000

    let authentication: Authentication
    /// The known bundle ids, to which suffixes of push types are added. Empty: every topic is known.
    let topics: [[UInt8]]

    private static let devicePath = Array("/3/device/".utf8)
    private static let bearer = Array("bearer ".utf8)

    /// Returns the first fault, or `nil`. Sets `request.tokenRange`. Does not validate channels.
    ///
    /// - Parameter now: Unix seconds.
    func fault(
        in request: inout Request, of peer: inout Peer, _ verifier: inout ProviderTokenVerifier, now: Int64
    ) -> Reason? {
        if request.hasDuplicateHeaders { return .duplicateHeaders }
        request.tokenRange = RequestValidator.tokenRange(of: request)
        if request.tokenRange == nil { request.findChannelPath() }
        let request = request
        let bytes = request.bytes.span
        guard let method = request.range(of: .method), request.kind.takes(bytes.extracting(method)) else {
            return .methodNotAllowed
        }
        if let fault = pathFault(request, bytes) { return fault }
        if let fault = credentialFault(request, bytes, &peer, &verifier, now: now) { return fault }
        if let id = request.range(of: request.idField), !UUIDText.isValid(bytes.extracting(id)) { return .badMessageId }
        if request.kind != .device { return nil }
        return topicFault(request, bytes, &peer) ?? headerFault(request, bytes, &peer) ?? tokenFault(request, bytes)
            ?? payloadFault(request, bytes)
    }

    /// Returns the place of the device token, valid or not, after `/3/device/`.
    static func tokenRange(of request: Request) -> Range<Int>? {
        guard let path = request.range(of: .path), request.bytes.span.extracting(path).starts(with: devicePath) else {
            return nil
        }
        return path.lowerBound + devicePath.count..<path.upperBound
    }

    private func pathFault(_ request: Request, _ bytes: Span<UInt8>) -> Reason? {
        if request.kind != .device { return nil }
        if let token = request.tokenRange { return token.isEmpty ? .missingDeviceToken : nil }
        guard let path = request.range(of: .path) else { return .badPath }
        return bytes.extracting(path).equals("/3/device") ? .missingDeviceToken : .badPath
    }

    private func credentialFault(
        _ request: Request, _ bytes: Span<UInt8>, _ peer: inout Peer, _ verifier: inout ProviderTokenVerifier, now: Int64
    ) -> Reason? {
        // `authorization` is ignored on a connection with a client certificate.
        if let certificate = peer.certificate { return certificate.fault }
        guard let range = request.range(of: .authorization) else { return .missingProviderToken }
        if authentication == .certificate { return .forbidden }
        let value = bytes.extracting(range)
        guard value.starts(with: RequestValidator.bearer) else { return .invalidProviderToken }
        return peer.tokens.fault(in: value.extracting(droppingFirst: RequestValidator.bearer.count), &verifier, now: now)
    }

    func topicFault(_ request: Request, _ bytes: Span<UInt8>, _ peer: inout Peer) -> Reason? {
        guard let range = request.range(of: .topic) else {
            // The only topic of a certificate is the default.
            return peer.certificate?.topics.count == 1 ? nil : .missingTopic
        }
        let topic = bytes.extracting(range)
        // Most connections push to one topic: the last valid topic of the same key is valid.
        if !topic.isEmpty && topic.equals(peer.goodTopic) && peer.goodTopicKey == peer.tokens.generation { return nil }
        if let fault = fault(ofTopic: topic, peer) { return fault }
        peer.goodTopic = Array(request.bytes[range])
        peer.goodTopicKey = peer.tokens.generation
        return nil
    }

    private func fault(ofTopic topic: Span<UInt8>, _ peer: Peer) -> Reason? {
        let mayStand = { (byte: UInt8) in byte.isDecimalDigit || byte.isLetter || [0x2D, 0x2E, 0x5F].contains(byte) }  // - . _
        guard (1...255).contains(topic.count), topic.allSatisfy(mayStand) else { return .badTopic }
        if let certificate = peer.certificate {
            for own in certificate.topics where topic.equals(own) { return known(topic) ? nil : .topicDisallowed }
            return .topicDisallowed
        }
        if let key = peer.tokens.key, !key.allows(topic: topic) { return .topicDisallowed }
        return known(topic) ? nil : .topicDisallowed
    }

    func known(_ topic: Span<UInt8>) -> Bool {
        for bundle in topics where RequestValidator.topic(topic, belongsTo: bundle) { return true }
        return topics.isEmpty
    }

    static func topic(_ topic: Span<UInt8>, belongsTo bundle: [UInt8]) -> Bool {
        guard topic.starts(with: bundle) else { return false }
        let suffix = topic.extracting(droppingFirst: bundle.count)
        for type in pushTypes where suffix.equals(type.topicSuffix) { return true }
        return false
    }

    /// Returns whether the topic has the suffix of the push type, which is a known one.
    private static func topic(_ topic: Span<UInt8>, fits pushType: Span<UInt8>) -> Bool {
        var suffix: [UInt8] = []
        var expected: [UInt8] = []
        for type in pushTypes {
            if pushType.equals(type.name) { expected = type.topicSuffix }
            let start = topic.count - type.topicSuffix.count
            if start >= 0, topic.extracting(droppingFirst: start).equals(type.topicSuffix), !type.topicSuffix.isEmpty {
                suffix = type.topicSuffix
            }
        }
        return suffix == expected
    }

    private func pairFault(_ request: Request, _ bytes: Span<UInt8>, type: Range<Int>, _ peer: inout Peer) -> Reason? {
        guard let topic = request.range(of: .topic) else { return nil }
        let isKnown = bytes.extracting(topic).equals(peer.goodPair.topic) && bytes.extracting(type).equals(peer.goodPair.type)
        if isKnown { return nil }
        guard RequestValidator.topic(bytes.extracting(topic), fits: bytes.extracting(type)) else { return .topicDisallowed }
        peer.goodPair = (Array(request.bytes[topic]), Array(request.bytes[type]))
        return nil
    }

    private func headerFault(_ request: Request, _ bytes: Span<UInt8>, _ peer: inout Peer) -> Reason? {
        var isBackground = false
        if let type = request.range(of: .pushType) {
            guard RequestValidator.isPushType(bytes.extracting(type)) else { return .invalidPushType }
            if let fault = pairFault(request, bytes, type: type, &peer) { return fault }
            isBackground = bytes.extracting(type).equals("background")
        }
        if let priority = request.range(of: .priority) {
            guard let value = bytes.extracting(priority).decimal, value == 10 || value == 5 || value == 1 else {
                return .badPriority
            }
            // "Always use priority 5. Using priority 10 is an error." Apple's reason is not documented.
            if value == 10 && isBackground { return .badPriority }
        }
        if let expiration = request.range(of: .expiration), bytes.extracting(expiration).decimal == nil {
            return .badExpirationDate
        }
        let collapseID = request.range(of: .collapseID)
        return collapseID.map { $0.count > RequestValidator.collapseIDLimit } == true ? .badCollapseId : nil
    }

    private static func isPushType(_ name: Span<UInt8>) -> Bool {
        for type in pushTypes where name.equals(type.name) { return true }
        return false
    }

    private func tokenFault(_ request: Request, _ bytes: Span<UInt8>) -> Reason? {
        guard let range = request.tokenRange, range.count <= RequestValidator.tokenDigitLimit,
            bytes.extracting(range).allSatisfy(\.isHexDigit)
        else { return .badDeviceToken }
        return nil
    }

    private func payloadFault(_ request: Request, _ bytes: Span<UInt8>) -> Reason? {
        if request.bodyLength == 0 { return .payloadEmpty }
        if request.bodyLength <= RequestValidator.payloadLimit { return nil }
        let type = request.range(of: .pushType)
        let isVoIP = type.map { bytes.extracting($0).equals("voip") } == true
        return isVoIP && request.bodyLength <= RequestValidator.voipPayloadLimit ? nil : .payloadTooLarge
    }
}
