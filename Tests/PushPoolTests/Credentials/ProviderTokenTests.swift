import COpenSSL
import Platform
import Testing

@testable import PushPool

private let start = Instant.now
private func minutes(_ count: Double) -> Instant { start + .seconds(count * 60) }

/// base64url without padding, read back.
private func decode(_ text: Substring) -> [UInt8] {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    var bytes: [UInt8] = []
    var bits = 0
    var count = 0
    for character in text {
        bits = bits << 6 | (alphabet.firstIndex(of: character) ?? 0)
        count += 6
        if count >= 8 {
            count -= 8
            bytes.append(UInt8(bits >> count & 0xFF))
        }
    }
    return bytes
}

/// Whether r||s is this key's signature.
private func isSigned(_ message: String, _ signature: [UInt8]) -> Bool {
    guard signature.count == 64 else { return false }
    let parsed = ECDSA_SIG_new()
    defer { ECDSA_SIG_free(parsed) }
    ECDSA_SIG_set0(parsed, BN_bin2bn(Array(signature[..<32]), 32, nil), BN_bin2bn(Array(signature[32...]), 32, nil))
    var der: UnsafeMutablePointer<UInt8>?
    let count = i2d_ECDSA_SIG(parsed, &der)
    defer { CRYPTO_free(der, nil, 0) }
    let pem = Certificates.shared.signingKeyPEM
    let bio = BIO_new_mem_buf(pem, CInt(pem.count))
    defer { BIO_free(bio) }
    let key = PEM_read_bio_PrivateKey(bio, nil, nil, nil)
    defer { EVP_PKEY_free(key) }
    let context = EVP_MD_CTX_new()
    defer { EVP_MD_CTX_free(context) }
    EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key)
    let bytes = Array(message.utf8)
    return EVP_DigestVerify(context, der, Int(count), bytes, bytes.count) == 1
}

@Suite("A provider token")
struct ProviderTokenTests {
    @Test func `it is a JWT with ES256 in JOSE's form`() throws {
        let key = try signingKey()
        // Among this many signatures some have an r or s with leading zeros.
        for round in 0..<300 {
            let token = try #require(ProviderToken(signedBy: key, issuedAt: 1_700_000_000, generation: 1))
            let parts = String(decoding: token.bytes, as: UTF8.self).split(separator: ".", omittingEmptySubsequences: false)
            try #require(parts.count == 3)
            #expect(String(decoding: decode(parts[0]), as: UTF8.self) == #"{"alg":"ES256","kid":"ABCDE12345"}"#)
            #expect(String(decoding: decode(parts[1]), as: UTF8.self) == #"{"iss":"TEAM567890","iat":1700000000}"#)
            #expect(isSigned("\(parts[0]).\(parts[1])", decode(parts[2])), "round \(round)")
        }
    }

    @Test func `printing it shows none of it`() throws {
        let key = try signingKey()
        let token = ProviderToken(signedBy: key, issuedAt: 1, generation: 3)
        var dumped = ""
        dump(token, to: &dumped)
        #expect(!dumped.contains("101"))
        #expect(!"\(String(describing: token))".contains("ey"))
    }
}

@Suite("When a provider token is minted")
struct TokenScheduleTests {
    @Test func `at first, then at 50 minutes of age, or at 30 for a new session`() {
        var schedule = TokenSchedule()
        #expect(schedule.isDue(forNewSession: false, now: start))
        schedule.minted(now: start)
        #expect(!schedule.isDue(forNewSession: true, now: minutes(29.9)))
        #expect(schedule.isDue(forNewSession: true, now: minutes(30)))
        #expect(!schedule.isDue(forNewSession: false, now: minutes(49.9)))
        #expect(schedule.isDue(forNewSession: false, now: minutes(50)))
    }

    @Test func `one that APNs calls expired is replaced, within 20 minutes only once`() {
        var schedule = TokenSchedule(mintedAt: start)
        #expect(schedule.mayRenew(now: minutes(1)))
        schedule.minted(now: minutes(1))
        #expect(!schedule.mayRenew(now: minutes(20.9)))
        #expect(schedule.mayRenew(now: minutes(21)))
        schedule.minted(now: minutes(21))
        #expect(schedule.mayRenew(now: minutes(22)))
    }

    @Test func `too many updates keep the token for 20 minutes, whatever its age`() {
        var schedule = TokenSchedule(mintedAt: start)
        schedule.updatesRefused(now: minutes(29))
        schedule.updatesRefused(now: minutes(40))
        #expect(!schedule.isDue(forNewSession: true, now: minutes(48.9)))
        #expect(!schedule.mayRenew(now: minutes(48.9)))
        #expect(schedule.isDue(forNewSession: true, now: minutes(49)))
        #expect(schedule.mayRenew(now: minutes(49)))
    }

    @Test func `one token serves everybody until it is due`() throws {
        let source = ProviderTokenSource(try signingKey(), file: nil)
        let first = try #require(source.token(forNewSession: true, at: Moment(now: start, unixTime: 1000)))
        #expect(source.token(forNewSession: false, at: Moment(now: minutes(49), unixTime: 4000)) == first)
        let second = try #require(source.token(forNewSession: false, at: Moment(now: minutes(50), unixTime: 4000)))
        #expect(second.generation == 2)
        #expect(second != first)
    }

    @Test func `a refusal mints another one for all, and the next one only when that is old enough`() throws {
        let source = ProviderTokenSource(try signingKey(), file: nil)
        _ = source.token(forNewSession: true, at: Moment(now: start, unixTime: 1000))
        #expect(source.renew(after: 1, at: Moment(now: minutes(10), unixTime: 1600)) == 2)
        // Another pool heard the same of the first token.
        #expect(source.renew(after: 1, at: Moment(now: minutes(10), unixTime: 1600)) == 2)
        #expect(source.renew(after: 2, at: Moment(now: minutes(11), unixTime: 1660)) == nil)
        #expect(source.renew(after: 2, at: Moment(now: minutes(35), unixTime: 3100)) == 3)
    }
}
