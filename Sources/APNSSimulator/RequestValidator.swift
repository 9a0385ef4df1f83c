/// Which part of Apple's service is simulated.
public enum PushEnvironment: String, Sendable, CaseIterable {
    case production, sandbox
}

/// Which credentials a client may show.
public enum Authentication: String, Sendable, CaseIterable {
    case any, token, certificate
}

/// Judges one request by what it says, in this order, the first fault being the answer: repeated header, method, path,
/// credential, `apns-id`, topic, push type, priority, expiration, collapse id, device token, payload.
///
/// Apple does not publish its order. Here a stranger learns nothing about the rest of the request.
struct RequestValidator {
    /// The push types and what each adds to the bundle id in its topic ("Sending notification requests to APNs").
    static let pushTypes: [(name: [UInt8], topicSuffix: [UInt8])] = [
        ("alert", ""), ("background", ""), ("voip", ".voip"), ("complication", ".complication"),
        ("fileprovider", ".pushkit.fileprovider"), ("mdm", ""), ("location", ".location-query"),
        ("liveactivity", ".push-type.liveactivity"), ("pushtotalk", ".voip-ptt"),
        ("widgets", ".push-type.widgets"), ("controls", ".push-type.controls"),
    ].map { (Array($0.utf8), Array($1.utf8)) }

    static let payloadLimit = 4096
    static let voipPayloadLimit = 5120
    static let collapseIDLimit = 64
    /// Apple says that the length is not fixed and gives no limit; this one is ours.
    static let tokenDigitLimit = 1000

    let authentication: Authentication
    /// Bundle ids; empty knows every topic. A suffix of a push type is allowed behind each.
    let topics: [[UInt8]]

    private static let devicePath = Array("/3/device/".utf8)
    private static let bearer = Array("bearer ".utf8)

    /// `nil` is a request that APNs would take; then `request.token` is known.
    ///
    /// - Parameter now: Unix seconds.
    func fault(
        in request: Request, of peer: inout Peer, _ verifier: inout ProviderTokenVerifier, now: Int64
    ) -> Reason? {
        if request.hasDuplicateHeaders { return .duplicateHeaders }
        guard request[.method]?.elementsEqual("POST".utf8) == true else { return .methodNotAllowed }
        if let fault = locateToken(in: request) { return fault }
        if let fault = credentialFault(request, &peer, &verifier, now: now) { return fault }
        if let id = request[.apnsID], !UUIDText.isValid(id) { return .badMessageId }
        return topicFault(request, peer) ?? headerFault(request) ?? tokenFault(request.token) ?? payloadFault(request)
    }

    private func locateToken(in request: Request) -> Reason? {
        guard let path = request[.path] else { return .badPath }
        let prefix = RequestValidator.devicePath
        guard path.starts(with: prefix) else {
            return path.elementsEqual(prefix.dropLast()) ? .missingDeviceToken : .badPath
        }
        request.tokenRange = path.startIndex + prefix.count..<path.endIndex
        return path.count == prefix.count ? .missingDeviceToken : nil
    }

    private func credentialFault(
        _ request: Request, _ peer: inout Peer, _ verifier: inout ProviderTokenVerifier, now: Int64
    ) -> Reason? {
        // "authorization" is ignored on a connection with a client certificate.
        if let certificate = peer.certificate { return certificate.fault }
        guard let authorization = request[.authorization] else { return .missingProviderToken }
        if authentication == .certificate { return .forbidden }
        guard authorization.starts(with: RequestValidator.bearer) else { return .invalidProviderToken }
        return peer.tokens.fault(in: authorization.dropFirst(7), &verifier, now: now)
    }

    private func topicFault(_ request: Request, _ peer: Peer) -> Reason? {
        guard let topic = request[.topic] else {
            // A certificate of one topic stands for it (its subject's UID).
            return peer.certificate?.topics.count == 1 ? nil : .missingTopic
        }
        guard !topic.isEmpty, topic.count <= 255, topic.allSatisfy(RequestValidator.belongsInTopic) else { return .badTopic }
        if let certificate = peer.certificate, !certificate.topics.contains(where: topic.elementsEqual) {
            return .topicDisallowed
        }
        if let key = peer.tokens.key, !key.allows(topic: topic) { return .topicDisallowed }
        return topics.isEmpty || topics.contains(where: { RequestValidator.topic(topic, belongsTo: $0) })
            ? nil : .topicDisallowed
    }

    static func topic(_ topic: ArraySlice<UInt8>, belongsTo bundle: [UInt8]) -> Bool {
        guard topic.starts(with: bundle) else { return false }
        let suffix = topic.dropFirst(bundle.count)
        return suffix.isEmpty || pushTypes.contains { suffix.elementsEqual($0.topicSuffix) }
    }

    private static func belongsInTopic(_ byte: UInt8) -> Bool {
        byte.isDecimalDigit || (97...122).contains(byte | 0x20) || byte == UInt8(ascii: ".")
            || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    private func headerFault(_ request: Request) -> Reason? {
        let type = request[.pushType]
        if let type, !RequestValidator.pushTypes.contains(where: { type.elementsEqual($0.name) }) { return .invalidPushType }
        if let priority = request[.priority] {
            guard let value = RequestValidator.number(priority), [1, 5, 10].contains(value) else { return .badPriority }
            // "Always use priority 5. Using priority 10 is an error." Which reason Apple gives is not known.
            if value == 10 && type?.elementsEqual("background".utf8) == true { return .badPriority }
        }
        if let expiration = request[.expiration], RequestValidator.number(expiration) == nil { return .badExpirationDate }
        if let collapseID = request[.collapseID], collapseID.count > RequestValidator.collapseIDLimit { return .badCollapseId }
        return nil
    }

    private func tokenFault(_ token: ArraySlice<UInt8>) -> Reason? {
        guard token.count <= RequestValidator.tokenDigitLimit, token.count % 2 == 0 else { return .badDeviceToken }
        for byte in token where !byte.isHexDigit { return .badDeviceToken }
        return nil
    }

    private func payloadFault(_ request: Request) -> Reason? {
        if request.bodyLength == 0 { return .payloadEmpty }
        let isVoIP = request[.pushType]?.elementsEqual("voip".utf8) == true
        let limit = isVoIP ? RequestValidator.voipPayloadLimit : RequestValidator.payloadLimit
        return request.bodyLength > limit ? .payloadTooLarge : nil
    }

    /// Decimal digits that fit 63 bits.
    private static func number(_ text: ArraySlice<UInt8>) -> Int64? {
        guard (1...18).contains(text.count) else { return nil }
        var value: Int64 = 0
        for byte in text {
            guard byte.isDecimalDigit else { return nil }
            value = value * 10 + Int64(byte - 48)
        }
        return value
    }
}
