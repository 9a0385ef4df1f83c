import Testing

@testable import APNSSimulator

@Suite("Validation of a request")
struct RequestValidatorTests {
    private static let now: Int64 = 1_800_000_000
    private static let key = Result {
        ProviderKey(keyID: "KEY0000001", teamID: "TEAM000001", pem: try SigningKey().privatePEM)
    }

    private var peer = Peer(certificate: nil, tokens: ProviderTokenGate(environment: .production))
    private var verifier: ProviderTokenVerifier
    private let good: [String: String]

    init() throws {
        let key = try Self.key.get()
        verifier = try ProviderTokenVerifier(keys: [key])
        good = [
            ":method": "POST", ":path": "/3/device/00fF", "apns-topic": "com.example.app",
            "authorization": "bearer \(try key.token(issuedAt: Self.now))",
        ]
    }

    private mutating func fault(
        _ changes: [String: String] = [:], without: [String] = [], body: Int = 20, repeated: String? = nil,
        authentication: Authentication = .any, topics: [String] = []
    ) -> Reason? {
        var headers = good.merging(changes) { $1 }
        for name in without { headers[name] = nil }
        var request = Request(headers: Array(headers), body: [UInt8](repeating: 0x20, count: body))
        if let repeated { request.add(repeated, "x") }
        let validator = RequestValidator(authentication: authentication, topics: topics.map { Array($0.utf8) })
        return validator.fault(in: &request, of: &peer, &verifier, now: Self.now)
    }

    @Test mutating func `a valid request passes`() {
        #expect(fault() == nil)
        #expect(
            fault(["apns-id": "8a2f9d3e-1c4b-4c3a-9b57-2f1f0a7c9d11", "apns-priority": "10", "apns-push-type": "alert"]) == nil)
    }

    @Test(
        arguments: [
            ("com.example.app", "alert", nil), ("com.example.app.voip", "voip", nil),
            ("com.example.app.voip-ptt", "pushtotalk", nil),
            ("com.example.app.push-type.widgets", "widgets", nil), ("com.apple.mgmt.External.1", "mdm", nil),
            ("com.example.app", "voip", .topicDisallowed), ("com.example.app.voip", "alert", .topicDisallowed),
            ("com.example.app.voip", "pushtotalk", .topicDisallowed), ("com.example.app", "liveactivity", .topicDisallowed),
        ] as [(String, String, Reason?)])
    mutating func `a topic has the suffix of its push type`(topic: String, type: String, reason: Reason?) {
        for _ in 0..<2 { #expect(fault(["apns-topic": topic, "apns-push-type": type]) == reason) }
        #expect(fault(["apns-topic": topic]) == nil)
    }

    @Test(arguments: [
        (":method", "GET", Reason.methodNotAllowed), (":path", "/3/device/", .missingDeviceToken),
        (":path", "/3/device", .missingDeviceToken), (":path", "/4/device/00", .badPath), (":path", "/", .badPath),
        (":path", "/3/device/0g", .badDeviceToken),
        (":path", "/3/device/00 00", .badDeviceToken), (":path", "/3/device/00/0", .badDeviceToken),
        ("apns-id", "8a2f9d3e-1c4b-4c3a-9b57-2f1f0a7c9d1", .badMessageId), ("apns-id", "", .badMessageId),
        ("apns-id", "8a2f9d3e+1c4b-4c3a-9b57-2f1f0a7c9d11", .badMessageId),
        ("apns-topic", "", .badTopic), ("apns-topic", "com example", .badTopic),
        ("apns-push-type", "alarm", .invalidPushType), ("apns-push-type", "", .invalidPushType),
        ("apns-priority", "7", .badPriority), ("apns-priority", "", .badPriority), ("apns-priority", "high", .badPriority),
        ("apns-expiration", "-1", .badExpirationDate), ("apns-expiration", "soon", .badExpirationDate),
        ("apns-expiration", "9999999999999999999", .badExpirationDate),
        ("authorization", "Bearer x", .invalidProviderToken), ("authorization", "bearer x.y.z", .invalidProviderToken),
    ])
    mutating func `an invalid header value gets its reason`(name: String, value: String, reason: Reason) {
        #expect(fault([name: value]) == reason)
    }

    @Test(arguments: [
        (":path", Reason.badPath), (":method", .methodNotAllowed), ("apns-topic", .missingTopic),
        ("authorization", .missingProviderToken),
    ])
    mutating func `a missing header gets its reason`(name: String, reason: Reason) {
        #expect(fault(without: [name]) == reason)
    }

    @Test(arguments: ["apns-topic", "authorization", ":path"])
    mutating func `a repeated header is rejected`(name: String) {
        #expect(fault(repeated: name) == .duplicateHeaders)
    }

    @Test(arguments: RequestValidator.pushTypes.indices)
    mutating func `every push type of Apple is accepted`(row: Int) {
        let type = RequestValidator.pushTypes[row]
        let topic = "com.example.app" + String(decoding: type.topicSuffix, as: UTF8.self)
        #expect(fault(["apns-topic": topic, "apns-push-type": String(decoding: type.name, as: UTF8.self)]) == nil)
    }

    @Test mutating func `a background push with priority 10 is rejected`() {
        #expect(fault(["apns-push-type": "background", "apns-priority": "10"]) == .badPriority)
        #expect(fault(["apns-push-type": "background", "apns-priority": "5"]) == nil)
    }

    @Test mutating func `a collapse id has at most 64 bytes`() {
        #expect(fault(["apns-collapse-id": String(repeating: "é", count: 32)]) == nil)
        #expect(fault(["apns-collapse-id": String(repeating: "é", count: 32) + "x"]) == .badCollapseId)
    }

    @Test mutating func `a payload has 1 to 4096 bytes, of type voip 5120`() {
        #expect(fault(body: 0) == .payloadEmpty)
        #expect(fault(body: 4096) == nil)
        #expect(fault(body: 4097) == .payloadTooLarge)
        let voip = ["apns-topic": "com.example.app.voip", "apns-push-type": "voip"]
        #expect(fault(voip, body: 5120) == nil)
        #expect(fault(voip, body: 5121) == .payloadTooLarge)
    }

    @Test mutating func `a device token may be long and in any case`() {
        #expect(fault([":path": "/3/device/" + String(repeating: "aB", count: 500)]) == nil)
        #expect(fault([":path": "/3/device/" + String(repeating: "aB", count: 501)]) == .badDeviceToken)
    }

    @Test mutating func `a topic may have the suffix of a push type`() {
        #expect(fault(["apns-topic": "com.a"], topics: ["com.a"]) == nil)
        #expect(fault(["apns-topic": "com.a.voip"], topics: ["com.a"]) == nil)
        #expect(fault(["apns-topic": "com.a.other"], topics: ["com.a"]) == .topicDisallowed)
        #expect(fault(["apns-topic": "com.b"], topics: ["com.a"]) == .topicDisallowed)
    }

    @Test mutating func `a certificate needs no token and accepts its own topics`() {
        peer.certificate = ClientCertificate(topics: [Array("com.a".utf8)])
        #expect(fault(["apns-topic": "com.a"], without: ["authorization"]) == nil)
        #expect(fault(["authorization": "nonsense"], without: ["apns-topic"]) == nil)
        #expect(fault(["apns-topic": "com.b"]) == .topicDisallowed)
        peer.certificate?.topics.append(Array("com.c".utf8))
        #expect(fault(without: ["apns-topic"]) == .missingTopic)
    }

    @Test mutating func `a token is forbidden if only certificates are accepted`() {
        #expect(fault(authentication: .certificate) == .forbidden)
        #expect(fault(without: ["authorization"], authentication: .certificate) == .missingProviderToken)
    }

    @Test mutating func `a request without a credential learns nothing about its other faults`() {
        #expect(fault(["apns-id": "x"], without: ["authorization", "apns-topic"], body: 0) == .missingProviderToken)
    }

    @Test func `every status is one of Apple's`() {
        #expect(Set(Reason.allCases.map(\.status)) == [400, 403, 404, 405, 410, 413, 429, 500, 503])
    }
}

extension Request {
    init(headers: [(key: String, value: String)], body: [UInt8]) {
        self.init()
        begin(stream: 1)
        for (name, value) in headers { add(name, value) }
        add(body: body.span)
    }

    mutating func add(_ name: String, _ value: String) {
        add(name: Array(name.utf8).span, value: Array(value.utf8).span)
    }
}
