internal import COpenSSL
import Glibc

/// Trust, identity and protocol versions that many TLS streams share. Verification is never switched off.
///
/// Immutable once made; OpenSSL counts references to an `SSL_CTX` with atomics, so any thread may make streams from it.
public final class TLSContext: @unchecked Sendable {  // Nothing is written to `context` after init (SSL_CTX(3)).
    let context: OpaquePointer

    /// A certificate with its chain and private key, in PEM.
    public struct Identity: Sendable {
        /// The leaf first, then any intermediates.
        public var certificatesPEM: [UInt8]
        /// Not encrypted.
        public var keyPEM: [UInt8]

        public init(certificatesPEM: [UInt8], keyPEM: [UInt8]) {
            self.certificatesPEM = certificatesPEM
            self.keyPEM = keyPEM
        }
    }

    /// For a client that trusts the system's roots and those of `rootsPath`, or only the latter.
    public convenience init(
        clientTrusting rootsPath: String?, onlyThose: Bool = false, identity: Identity?, protocols: [String]
    ) throws(TLSError) {
        try self.init(
            clientTrusting: TLSRoots(bundle: rootsPath, onlyThose: onlyThose), identity: identity, protocols: protocols)
    }

    /// For a client.
    ///
    /// - Parameter protocols: ALPN names to offer, best first; a handshake that does not end in one of them fails. Empty: no ALPN.
    public init(clientTrusting roots: TLSRoots, identity: Identity?, protocols: [String]) throws(TLSError) {
        context = try TLSContext.make(TLS_client_method())
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        SSL_CTX_set1_cert_store(context, roots.store)
        if let identity { try use(identity) }
        let offer = protocols.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        if !offer.isEmpty { SSL_CTX_set_alpn_protos(context, offer, UInt32(offer.count)) }
    }

    /// For a server that speaks `h2` alone.
    ///
    /// - Parameter clientRootsPEM: when given, a client may show a certificate, which must then lead to one of these.
    public init(serverFor identity: Identity, clientRootsPEM: [UInt8]?) throws(TLSError) {
        context = try TLSContext.make(TLS_server_method())
        try use(identity)
        SSL_CTX_set_alpn_select_cb(context, TLSContext.chooseH2, nil)
        if let clientRootsPEM {
            for root in try TLSContext.readCertificates(clientRootsPEM) {
                defer { X509_free(root) }
                X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root)
                SSL_CTX_add_client_CA(context, root)
            }
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        }
    }

    deinit { SSL_CTX_free(context) }

    /// OpenSSL writes to sockets with write(2), which cannot be told MSG_NOSIGNAL: without this, a peer that hangs up would end
    /// whatever process uses a stream, be it a test.
    private static let brokenPipesAreErrors: Void = { _ = signal(SIGPIPE, SIG_IGN) }()

    private static func make(_ method: OpaquePointer?) throws(TLSError) -> OpaquePointer {
        _ = brokenPipesAreErrors
        ERR_clear_error()
        guard let context = SSL_CTX_new(method) else { throw .other(takeOpenSSLError().text) }
        shim_SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)
        shim_SSL_CTX_set_write_modes(context)
        shim_SSL_CTX_no_session_cache(context)
        shim_SSL_CTX_set_safe_options(context)
        return context
    }

    private func use(_ identity: Identity) throws(TLSError) {
        let chain = try TLSContext.readCertificates(identity.certificatesPEM)
        defer { for certificate in chain { X509_free(certificate) } }
        guard let leaf = chain.first else { throw .other("there is no certificate in the PEM text") }
        ERR_clear_error()
        let key = TLSContext.withMemoryBIO(identity.keyPEM) { PEM_read_bio_PrivateKey($0, nil, TLSContext.noPassphrase, nil) }
        guard let key else { throw .other("cannot read the private key: \(takeOpenSSLError().text)") }
        defer { EVP_PKEY_free(key) }
        guard SSL_CTX_use_certificate(context, leaf) == 1 else { throw .other("certificate: \(takeOpenSSLError().text)") }
        guard SSL_CTX_use_PrivateKey(context, key) == 1, SSL_CTX_check_private_key(context) == 1 else {
            throw .other("the private key does not belong to the certificate: \(takeOpenSSLError().text)")
        }
        for certificate in chain.dropFirst() { _ = shim_SSL_CTX_add1_chain_cert(context, certificate) }
    }

    private static func readCertificates(_ pem: [UInt8]) throws(TLSError) -> [OpaquePointer] {
        ERR_clear_error()
        defer { ERR_clear_error() }  // The end of the text is itself an entry: "no start line".
        return withMemoryBIO(pem) { bio in
            var certificates: [OpaquePointer] = []
            while let certificate = PEM_read_bio_X509(bio, nil, noPassphrase, nil) { certificates.append(certificate) }
            return certificates
        }
    }

    private static func withMemoryBIO<Result>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
        bytes.withUnsafeBytes { raw in
            let bio = BIO_new_mem_buf(raw.baseAddress, CInt(raw.count))
            defer { BIO_free(bio) }
            return body(bio)
        }
    }

    /// Without it OpenSSL would ask on the terminal.
    private static let noPassphrase:
        @convention(c) (
            UnsafeMutablePointer<CChar>?, CInt, CInt, UnsafeMutableRawPointer?
        ) -> CInt = { _, _, _, _ in -1 }

    /// RFC 7301: the server picks from the client's list, each name behind its length.
    private static let chooseH2: SSL_CTX_alpn_select_cb_func = { _, chosen, length, offer, offered, _ in
        var rest = UnsafeBufferPointer(start: offer, count: Int(offered))[...]
        while let size = rest.popFirst(), rest.count >= Int(size) {
            if rest.prefix(Int(size)).elementsEqual("h2".utf8), let base = rest.base.baseAddress {
                chosen?.pointee = base + rest.startIndex
                length?.pointee = size
                return SSL_TLSEXT_ERR_OK
            }
            rest = rest.dropFirst(Int(size))
        }
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
}
