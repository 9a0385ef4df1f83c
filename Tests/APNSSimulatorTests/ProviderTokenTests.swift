import Testing

@testable import APNSSimulator

@Suite("Provider tokens")
struct ProviderTokenTests {
    private static let start: Int64 = 1_800_000_000
    private static let pem = Result { try SigningKey().privatePEM }
    private static let otherPEM = Result { try SigningKey().privatePEM }

    private let key: ProviderKey
    private let sibling: ProviderKey
    private let stranger: ProviderKey
    private var verifier: ProviderTokenVerifier
    private var gate = ProviderTokenGate(environment: .production)

    init() throws {
        key = ProviderKey(keyID: "KEY0000001", teamID: "TEAM000001", pem: try Self.pem.get())
        sibling = ProviderKey(keyID: "KEY0000002", teamID: "TEAM000001", pem: try Self.otherPEM.get())
        stranger = ProviderKey(keyID: "KEY0000003", teamID: "TEAM000002", pem: try Self.otherPEM.get())
        verifier = try ProviderTokenVerifier(keys: [key, sibling, stranger])
    }

    private mutating func fault(_ token: String, after seconds: Int64 = 0) -> Reason? {
        gate.fault(in: Array(token.utf8).span, &verifier, now: Self.start + seconds)
    }

    @Test(arguments: [ProviderKey.SignatureForm.jose, .der])
    mutating func `both forms of a signature are accepted`(form: ProviderKey.SignatureForm) throws {
        // Enough signatures to contain numbers with leading zeros and leading 1 bits.
        for second in 0..<300 {
            let token = try key.token(issuedAt: Self.start + Int64(second), form: form)
            #expect(verifier.verified(Array(token.utf8))?.issuedAt == Self.start + Int64(second))
        }
    }

    @Test mutating func `a public key suffices to verify`() throws {
        var known = key
        known.pem = try SigningKey(pem: key.pem).publicPEM
        verifier = try ProviderTokenVerifier(keys: [known])
        #expect(fault(try key.token(issuedAt: Self.start)) == nil)
    }

    @Test mutating func `a changed token is invalid`() throws {
        let token = Array(try key.token(issuedAt: Self.start).utf8)
        #expect(verifier.verified(token) != nil)
        for place in stride(from: 0, to: token.count - 1, by: 7) {
            var changed = token
            changed[place] = changed[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(verifier.verified(changed) == nil, "byte \(place)")
        }
        #expect(verifier.verified([]) == nil)
        #expect(verifier.verified(token.dropLast(40)) == nil)
    }

    @Test mutating func `an unknown key, a wrong team and another algorithm are invalid`() throws {
        var unknown = key
        unknown.keyID = "KEY0000009"
        #expect(fault(try unknown.token(issuedAt: Self.start)) == .invalidProviderToken)
        var foreign = key
        foreign.teamID = "TEAM000009"
        #expect(fault(try foreign.token(issuedAt: Self.start)) == .invalidProviderToken)
        var misnamed = key
        misnamed.keyID = sibling.keyID
        #expect(fault(try misnamed.token(issuedAt: Self.start)) == .invalidProviderToken)
    }

    @Test mutating func `a token expires after an hour, and its connection stays rejected`() throws {
        let token = try key.token(issuedAt: Self.start)
        #expect(fault(token) == nil)
        #expect(fault(token, after: 3600) == nil)
        #expect(fault(token, after: 3601) == .expiredProviderToken)
        #expect(fault(try key.token(issuedAt: Self.start + 3601), after: 3601) == .expiredProviderToken)
        gate = ProviderTokenGate(environment: .production)
        #expect(fault(try key.token(issuedAt: Self.start + 3601), after: 3601) == nil)
    }

    @Test mutating func `a token from the future is invalid`() throws {
        #expect(fault(try key.token(issuedAt: Self.start + 301)) == .invalidProviderToken)
        #expect(fault(try key.token(issuedAt: Self.start + 300)) == nil)
    }

    @Test mutating func `a connection accepts a new token every 20 minutes`() throws {
        let first = try key.token(issuedAt: Self.start)
        let second = try key.token(issuedAt: Self.start + 1)
        #expect(fault(first) == nil)
        #expect(fault(second, after: 1199) == .tooManyProviderTokenUpdates)
        #expect(fault(first, after: 1199) == .tooManyProviderTokenUpdates)
        #expect(fault(second, after: 1200) == nil)
    }

    @Test mutating func `a connection accepts tokens of one team only`() throws {
        #expect(fault(try key.token(issuedAt: Self.start)) == nil)
        #expect(fault(try stranger.token(issuedAt: Self.start), after: 1300) == .invalidProviderToken)
        #expect(fault(try sibling.token(issuedAt: Self.start), after: 1300) == nil)
    }

    @Test mutating func `keys of another kind or environment get their reasons`() throws {
        var special = sibling
        special.topics = ["com.example.app"]
        var sandbox = stranger
        sandbox.environment = .sandbox
        verifier = try ProviderTokenVerifier(keys: [key, special, sandbox])
        #expect(fault(try sandbox.token(issuedAt: Self.start)) == .badEnvironmentKeyIdInToken)
        #expect(fault(try key.token(issuedAt: Self.start)) == nil)
        #expect(fault(try special.token(issuedAt: Self.start), after: 1300) == .unrelatedKeyIdInToken)
    }

    @Test(arguments: [
        #"{"iss":"TEAM"#, "[]", "", #"{"iss":"TEAM","iat":x}"#, #"{"iss":"TEAM"}"#, #"{"iss":"TEAM","iat":-1}"#,
        #"{"iss":"TEAM","iat":"1"}"#,
    ])
    mutating func `malformed claims are rejected`(claims: String) throws {
        let text = claims.replacing(#""TEAM""#, with: "\"\(key.teamID)\"")
        let token = try key.token(header: #"{"alg":"ES256","kid":"\#(key.keyID)"}"#, claims: text)
        #expect(verifier.verified(Array(token.utf8)) == nil)
    }

    @Test mutating func `blanks, fractions and other members are accepted`() throws {
        let claims = #" { "iss" : "\#(key.teamID)" , "iat":\#(Self.start).5, "typ":null, "a": [1] } "#
        let token = try key.token(header: #"{"alg":"ES256", "kid":"\#(key.keyID)", "typ":"JWT"}"#, claims: claims)
        #expect(verifier.verified(Array(token.utf8))?.issuedAt == Self.start)
    }

    @Test func `a description contains no key`() throws {
        let secret = String(decoding: key.pem, as: UTF8.self).split(separator: "\n")[1]
        #expect(!"\(key)".contains(secret))
        #expect(!"\(try Credentials.make())".contains("PRIVATE"))
    }
}
