internal import COpenSSL

/// An EC key of OpenSSL. Used on the thread that made it.
@safe final class SigningKey {
    let key: OpaquePointer

    /// Makes a P-256 key.
    init() throws(SimulatorError) {
        guard let key = unsafe shim_EVP_EC_gen_P256() else { throw SimulatorError("OpenSSL cannot make a P-256 key") }
        unsafe self.key = key
    }

    /// Reads a private key, or a public key, which only verifies.
    init(pem: [UInt8]) throws(SimulatorError) {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let key =
            unsafe MemoryBIO.read(pem) { unsafe PEM_read_bio_PrivateKey($0, nil, noPassphrase, nil) }
            ?? MemoryBIO.read(pem) { unsafe PEM_read_bio_PUBKEY($0, nil, noPassphrase, nil) }
        guard let key = unsafe key else { throw SimulatorError("a provider key is not a PEM private or public key") }
        unsafe self.key = key
    }

    deinit { unsafe EVP_PKEY_free(key) }

    /// PKCS#8, the format of a `.p8` file.
    var privatePEM: [UInt8] {
        unsafe MemoryBIO.written { unsafe PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }
    }

    var publicPEM: [UInt8] {
        unsafe MemoryBIO.written { unsafe PEM_write_bio_PUBKEY($0, key) }
    }

    /// Signs with ECDSA and SHA-256. Returns DER.
    func signature(of bytes: [UInt8]) throws(SimulatorError) -> [UInt8] {
        let context = unsafe EVP_MD_CTX_new()
        defer { unsafe EVP_MD_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: 128)
        var length = signature.count
        guard unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            unsafe EVP_DigestSign(context, &signature, &length, bytes, bytes.count) == 1
        else {
            ERR_clear_error()
            throw SimulatorError("this key cannot sign; is it a public one?")
        }
        return Array(signature[..<length])
    }

    /// Accepts both forms, as APNs does: Apple's samples use both.
    func verifies(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
        if let der = ECDSASignature(jose: signature)?.der, verifies(der: der, of: bytes) { return true }
        return verifies(der: signature, of: bytes)
    }

    private func verifies(der: [UInt8], of bytes: [UInt8]) -> Bool {
        let context = unsafe EVP_MD_CTX_new()
        defer {
            unsafe EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        return unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(context, der, der.count, bytes, bytes.count) == 1
    }
}

/// Prevents OpenSSL from asking on the terminal.
private let noPassphrase:
    @convention(c) (
        UnsafeMutablePointer<CChar>?, CInt, CInt, UnsafeMutableRawPointer?
    ) -> CInt = { _, _, _, _ in -1 }

/// A provider signing key that the simulator accepts, with the properties that Apple assigns to it.
public struct ProviderKey: Sendable, Equatable {
    /// The `kid` of the tokens, 10 characters.
    public var keyID: String
    /// The `iss` of the tokens, 10 characters.
    public var teamID: String
    /// PEM of the private key (a `.p8`) or of the public one.
    public var pem: [UInt8]
    /// `nil` for both environments, as for keys made before February 2025.
    public var environment: PushEnvironment?
    /// The bundle ids of a topic-specific key; `nil` for a team-scoped key.
    public var topics: [String]?
    /// The id of another topic-specific key that may share a connection with this key.
    public var relatedKeyID: String?

    public init(
        keyID: String, teamID: String, pem: [UInt8], environment: PushEnvironment? = nil, topics: [String]? = nil,
        relatedKeyID: String? = nil
    ) {
        self.keyID = keyID
        self.teamID = teamID
        self.pem = pem
        self.environment = environment
        self.topics = topics
        self.relatedKeyID = relatedKeyID
    }

    func allows(topic: Span<UInt8>) -> Bool {
        guard let topics else { return true }
        for bundle in topics where RequestValidator.topic(topic, belongsTo: Array(bundle.utf8)) { return true }
        return false
    }

    /// Returns whether a connection of `first` may use this key: both team-scoped of one environment, or related by id.
    func isRelated(to first: ProviderKey) -> Bool {
        if keyID == first.keyID { return true }
        if topics == nil && first.topics == nil { return environment == first.environment }
        guard topics != nil, first.topics != nil else { return false }
        return relatedKeyID == first.keyID || first.relatedKeyID == keyID
    }
}

extension ProviderKey: CustomStringConvertible {
    /// Names the key without its content.
    public var description: String { "provider key \(keyID) of team \(teamID)" }
}

/// The two numbers of a P-256 signature, 32 bytes each.
struct ECDSASignature {
    private let numbers: [[UInt8]]

    /// - Parameter jose: r || s (RFC 7518, 3.4).
    init?(jose: [UInt8]) {
        guard jose.count == 64 else { return nil }
        numbers = [Array(jose[..<32]), Array(jose[32...])]
    }

    init?(der: [UInt8]) {
        var outer = der[...]
        guard let pair = DER.take(&outer), pair.tag == DER.sequence, outer.isEmpty else { return nil }
        var rest = pair.content
        var numbers: [[UInt8]] = []
        while let element = DER.take(&rest) {
            let digits = element.content.drop { $0 == 0 }
            guard element.tag == DER.integer, digits.count <= 32 else { return nil }
            numbers.append(Array(repeating: 0, count: 32 - digits.count) + digits)
        }
        guard numbers.count == 2, rest.isEmpty else { return nil }
        self.numbers = numbers
    }

    var jose: [UInt8] { numbers[0] + numbers[1] }

    var der: [UInt8] {
        DER.encode(
            DER.sequence,
            numbers.flatMap { number in
                let digits = number.drop { $0 == 0 }
                // A leading 1 bit makes the number negative. Zero has one digit.
                let isClear = digits.first.map { $0 < 0x80 } ?? false
                return DER.encode(DER.integer, (isClear ? [] : [0]) + digits)
            })
    }
}

enum SHA256 {
    /// Returns the hash in lower-case hex.
    static func hex(_ bytes: [UInt8]) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        unsafe EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha256(), nil)
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

/// Memory that OpenSSL's readers and writers of files use.
enum MemoryBIO {
    static func read<Result>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
        unsafe bytes.withUnsafeBytes { raw in
            let bio = unsafe BIO_new_mem_buf(raw.baseAddress, CInt(raw.count))
            defer { unsafe BIO_free(bio) }
            return unsafe body(bio)
        }
    }

    /// Returns the written bytes; empty if `body` fails.
    static func written(by body: (OpaquePointer?) -> CInt) -> [UInt8] {
        let bio = unsafe BIO_new(BIO_s_mem())
        defer { unsafe BIO_free(bio) }
        guard unsafe body(bio) == 1 else { return [] }
        var data: UnsafeMutablePointer<CChar>?
        let length = unsafe shim_BIO_get_mem_data(bio, &data)
        guard let data = unsafe data, length > 0 else { return [] }
        return unsafe UnsafeRawBufferPointer(start: data, count: length).map { $0 }
    }
}
