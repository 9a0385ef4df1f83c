internal import COpenSSL
import Glibc

/// Trust, identity and protocol versions that many TLS streams share. Verification is never switched off.
///
/// Immutable after init. OpenSSL counts references to an `SSL_CTX` with atomics, so any thread may make streams from it.
@safe public final class TLSContext: @unchecked Sendable {  // Nothing is written to `context` after init (SSL_CTX(3)).
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

    /// Owns one `X509`.
    @safe fileprivate final class Certificate {
        let handle: OpaquePointer
        init(owning handle: OpaquePointer) { unsafe self.handle = handle }
        deinit { unsafe X509_free(handle) }
    }

    let context: OpaquePointer
    /// The name that a server's certificate must have, instead of the host of the connection.
    let serverName: String?

    /// Makes a context for a client that trusts the system's roots and those of `rootsPath`, or only the latter.
    public convenience init(
        clientTrusting rootsPath: String?, onlyThose: Bool = false, identity: Identity?, protocols: [String]
    ) throws(TLSError) {
        try self.init(clientTrusting: TLSRoots(bundle: rootsPath, onlyThose: onlyThose), identity: identity, protocols: protocols)
    }

    /// Makes a context for a client.
    ///
    /// - Parameters:
    ///   - protocols: ALPN names to offer, best first; a handshake that does not end in one of them fails. Empty: no ALPN.
    ///   - serverName: the name that the server's certificate must have; `nil` is the host of the connection.
    public init(
        clientTrusting roots: TLSRoots, identity: Identity?, protocols: [String], serverName: String? = nil
    ) throws(TLSError) {
        self.serverName = serverName
        unsafe context = try unsafe TLSContext.make(TLS_client_method())
        unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        unsafe SSL_CTX_set1_cert_store(context, roots.store)
        if let identity { try use(identity) }
        let offer = protocols.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        // Unlike its siblings, this call returns 0 for success.
        if !offer.isEmpty { try check(unsafe SSL_CTX_set_alpn_protos(context, offer, UInt32(offer.count)) == 0, "ALPN") }
    }

    /// Makes a context for a server that speaks only `h2`.
    ///
    /// - Parameter clientRootsPEM: if given, a client may present a certificate, which must then chain to one of these.
    public init(serverFor identity: Identity, clientRootsPEM: [UInt8]?) throws(TLSError) {
        serverName = nil
        unsafe context = try unsafe TLSContext.make(TLS_server_method())
        try use(identity)
        unsafe SSL_CTX_set_alpn_select_cb(context, TLSContext.chooseH2, nil)
        guard let clientRootsPEM else { return }
        for root in TLSContext.certificates(clientRootsPEM) {
            try check(unsafe X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root.handle) == 1, "client root")
            try check(unsafe SSL_CTX_add_client_CA(context, root.handle) == 1, "client root")
        }
        unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
    }

    deinit { unsafe SSL_CTX_free(context) }

    /// OpenSSL writes to sockets with write(2), which has no MSG_NOSIGNAL: without this, a peer that closes would end any process
    /// that uses a stream, tests included.
    private static let ignoreBrokenPipes: Void = { _ = signal(SIGPIPE, SIG_IGN) }()

    private static func make(_ method: OpaquePointer?) throws(TLSError) -> OpaquePointer {
        _ = ignoreBrokenPipes
        ERR_clear_error()
        guard let context = unsafe SSL_CTX_new(method) else { throw .other(takeOpenSSLError().text) }
        guard unsafe shim_SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 else {
            unsafe SSL_CTX_free(context)
            throw .other("TLS 1.2 as the oldest version: \(takeOpenSSLError().text)")
        }
        unsafe shim_SSL_CTX_set_write_modes(context)
        unsafe shim_SSL_CTX_no_session_cache(context)
        unsafe shim_SSL_CTX_set_safe_options(context)
        return unsafe context
    }

    private func use(_ identity: Identity) throws(TLSError) {
        let chain = TLSContext.certificates(identity.certificatesPEM)
        guard let leaf = chain.first else { throw .other("there is no certificate in the PEM text") }
        ERR_clear_error()
        let key = unsafe withMemoryBIO(identity.keyPEM) {
            unsafe PEM_read_bio_PrivateKey($0, nil, refusePassphrase, nil)
        }
        guard let key = unsafe key else { throw .other("cannot read the private key: \(takeOpenSSLError().text)") }
        defer { unsafe EVP_PKEY_free(key) }
        try check(unsafe SSL_CTX_use_certificate(context, leaf.handle) == 1, "certificate")
        try check(
            unsafe SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1,
            "the private key does not belong to the certificate")
        for certificate in chain.dropFirst() {
            try check(unsafe shim_SSL_CTX_add1_chain_cert(context, certificate.handle) == 1, "certificate chain")
        }
    }

    private func check(_ isDone: Bool, _ action: String) throws(TLSError) {
        if !isDone { throw .other("\(action): \(takeOpenSSLError().text)") }
    }

    /// - Parameter isTrusted: whether a block may be a TRUSTED CERTIFICATE, which has settings of trust.
    fileprivate static func certificates(_ pem: [UInt8], isTrusted: Bool = false) -> [Certificate] {
        ERR_clear_error()
        defer { ERR_clear_error() }  // The end of the text is itself an entry: "no start line".
        return unsafe withMemoryBIO(pem) { bio in
            var certificates: [Certificate] = []
            let read = unsafe isTrusted ? PEM_read_bio_X509_AUX : PEM_read_bio_X509
            while let handle = unsafe read(bio, nil, refusePassphrase, nil) {
                certificates.append(unsafe Certificate(owning: handle))
            }
            return certificates
        }
    }

    /// Picks `h2` from the client's list, in which each name follows its length (RFC 7301).
    private static let chooseH2: SSL_CTX_alpn_select_cb_func = { _, chosen, length, offer, offered, _ in
        var rest = unsafe UnsafeBufferPointer(start: offer, count: Int(offered))[...]
        while let size = unsafe rest.popFirst(), unsafe rest.count >= Int(size) {
            if unsafe rest.prefix(Int(size)).elementsEqual("h2".utf8), let base = unsafe rest.base.baseAddress {
                unsafe chosen?.pointee = unsafe base + rest.startIndex
                unsafe length?.pointee = size
                return SSL_TLSEXT_ERR_OK
            }
            unsafe rest = unsafe rest.dropFirst(Int(size))
        }
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
}

/// Passes `bytes` to `body` as a BIO for reading.
package func withMemoryBIO<Result>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
    unsafe bytes.withUnsafeBytes { raw in
        let bio = unsafe BIO_new_mem_buf(raw.baseAddress, CInt(clamping: raw.count))
        defer { unsafe BIO_free(bio) }
        return unsafe body(bio)
    }
}

/// Answers that there is no passphrase. Without it OpenSSL asks on the terminal.
package let refusePassphrase: @convention(c) (UnsafeMutablePointer<CChar>?, CInt, CInt, UnsafeMutableRawPointer?) -> CInt =
    { _, _, _, _ in -1 }

/// The roots that a client trusts: the system's, those of a bundle, or both.
///
/// Reading the system's 140 roots takes 20 ms and a megabyte, so contexts with the same trust share one of these.
@safe public final class TLSRoots: @unchecked Sendable {  // OpenSSL locks a store, and counts references to it with atomics.
    let store: OpaquePointer

    /// Reads the roots. Later changes of the files have no effect on this object.
    ///
    /// - Parameters:
    ///   - path: a PEM bundle.
    ///   - onlyThose: whether a bundle replaces the system's roots.
    public init(bundle path: String?, onlyThose: Bool = false) throws(TLSError) {
        ERR_clear_error()
        guard let store = unsafe X509_STORE_new() else { throw .other(takeOpenSSLError().text) }
        unsafe self.store = unsafe store
        if path == nil || !onlyThose, unsafe X509_STORE_set_default_paths(store) != 1 {
            throw .other("cannot read the system's roots: \(takeOpenSSLError().text)")
        }
        guard let path else { return }
        ERR_clear_error()
        guard unsafe X509_STORE_load_locations(store, path, nil) == 1 else {
            throw .other("cannot read the CA bundle \(path): \(takeOpenSSLError().text)")
        }
    }

    /// Reads the roots of a PEM text.
    ///
    /// - Parameter onlyThose: whether they replace the system's roots.
    package init(pem: [UInt8], onlyThose: Bool = false) throws(TLSError) {
        ERR_clear_error()
        guard let store = unsafe X509_STORE_new() else { throw .other(takeOpenSSLError().text) }
        unsafe self.store = unsafe store
        if !onlyThose, unsafe X509_STORE_set_default_paths(store) != 1 {
            throw .other("cannot read the system's roots: \(takeOpenSSLError().text)")
        }
        let roots = TLSContext.certificates(pem, isTrusted: true)
        if roots.isEmpty { throw .other("the CA bundle contains no certificates") }
        for root in roots where unsafe X509_STORE_add_cert(store, root.handle) != 1 {
            throw .other("cannot use a certificate of the CA bundle: \(takeOpenSSLError().text)")
        }
    }

    deinit { unsafe X509_STORE_free(store) }
}

/// A failure of TLS, in a sentence that an operator can act on.
public enum TLSError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The peer's chain does not end in a trusted root, or the name does not match.
    case untrusted(String)
    /// The peer refused our certificate (a TLS alert about it).
    case ourCertificateRefused(String)
    /// The peer did not choose the protocol that was offered in ALPN.
    case noProtocol(wanted: String, got: String)
    case other(String)

    public var description: String {
        switch self {
        case .untrusted(let why): "TLS: the server's certificate is not trusted: \(why)"
        case .ourCertificateRefused(let why): "TLS: the server refused our certificate: \(why)"
        case .noProtocol(let wanted, let got):
            "TLS: the server did not choose \(wanted) in ALPN (\(got.isEmpty ? "nothing" : got)); "
                + "is a proxy intercepting the connection?"
        case .other(let why): "TLS: \(why)"
        }
    }
}

/// Takes the oldest entry of this thread's OpenSSL error queue as text, and empties the queue.
func takeOpenSSLError() -> (code: UInt, text: String) {
    let code = ERR_get_error()
    ERR_clear_error()
    if code == 0 { return (0, "no reason given") }
    var buffer = [CChar](repeating: 0, count: 256)
    unsafe ERR_error_string_n(code, &buffer, buffer.count)
    if let reason = unsafe ERR_reason_error_string(code) { return unsafe (code, String(cString: reason)) }
    return (code, String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self))
}
