internal import COpenSSL
import Glibc

/// One `SSL` on one socket: bytes in and out, never blocking.
@safe public struct TLSStream: ~Copyable {
    private let ssl: OpaquePointer
    private let socket: Socket
    private let wantedProtocol: String?
    /// The length of the write that waits for the socket.
    private var blockedLength: CInt?

    public var descriptor: CInt { socket.descriptor }

    /// Makes the client's end, before its handshake.
    ///
    /// - Parameters:
    ///   - host: a name or an address literal. It goes into SNI and must be in the server's certificate, unless the context has
    ///     a name for it.
    ///   - wantedProtocol: the protocol that ALPN must choose (`h2`).
    public init(client socket: consuming Socket, host: String, wantedProtocol: String?, _ context: TLSContext) throws(TLSError) {
        let ssl = try unsafe TLSStream.make(context, socket.descriptor)
        let host = context.serverName ?? host
        guard unsafe TLSStream.expect(host, ssl) else {
            unsafe SSL_free(ssl)
            throw .other("cannot check certificates for the name \"\(host)\": \(takeOpenSSLError().text)")
        }
        unsafe SSL_set_connect_state(ssl)
        unsafe self.ssl = unsafe ssl
        self.socket = socket
        self.wantedProtocol = wantedProtocol
    }

    /// Makes the server's end, before its handshake.
    public init(server socket: consuming Socket, _ context: TLSContext) throws(TLSError) {
        let ssl = try unsafe TLSStream.make(context, socket.descriptor)
        unsafe SSL_set_accept_state(ssl)
        unsafe self.ssl = unsafe ssl
        self.socket = socket
        wantedProtocol = nil
    }

    private static func make(_ context: TLSContext, _ descriptor: CInt) throws(TLSError) -> OpaquePointer {
        ERR_clear_error()
        guard let ssl = unsafe SSL_new(context.context) else { throw .other(takeOpenSSLError().text) }
        if unsafe SSL_set_fd(ssl, descriptor) == 1 { return unsafe ssl }
        unsafe SSL_free(ssl)
        throw .other(takeOpenSSLError().text)
    }

    /// Makes the handshake check the server's certificate for `host`. Returns whether OpenSSL accepted that.
    private static func expect(_ host: String, _ ssl: OpaquePointer) -> Bool {
        // OpenSSL takes an empty name as: check none.
        if host.isEmpty { return false }
        let parameters = unsafe SSL_get0_param(ssl)
        // An address literal is matched against the certificate's IP entries and never goes into SNI (RFC 6066, 3).
        if unsafe X509_VERIFY_PARAM_set1_ip_asc(parameters, host) == 1 { return true }
        ERR_clear_error()
        return unsafe X509_VERIFY_PARAM_set1_host(parameters, host, 0) == 1 && shim_SSL_set_tlsext_host_name(ssl, host) == 1
    }

    deinit { unsafe SSL_free(ssl) }

    /// Continues the handshake. Returns `.done(0)` when it is complete, the chain is verified and ALPN has agreed.
    public mutating func handshake() -> Progress {
        emptyErrorQueue()
        let status = unsafe SSL_do_handshake(ssl)
        if status != 1 { return progress(status) }
        if let wantedProtocol, chosenProtocol != wantedProtocol {
            return .failed(.tls(.noProtocol(wanted: wantedProtocol, got: chosenProtocol)))
        }
        return .done(0)
    }

    public mutating func read(into buffer: UnsafeMutableRawBufferPointer) -> Progress {
        emptyErrorQueue()
        let count = unsafe SSL_read(ssl, buffer.baseAddress, CInt(clamping: buffer.count))
        return count > 0 ? .done(Int(count)) : progress(count)
    }

    /// A blocked write is repeated with the same length, without the bytes that followed since: OpenSSL would send the blocked
    /// record, make another one of the rest and, if that is blocked, report neither as written.
    ///
    /// Writes at most one record's worth: a record holds 16,384 bytes, and a small remainder would need a record of its own.
    public mutating func write(_ bytes: UnsafeRawBufferPointer) -> Progress {
        if unsafe bytes.isEmpty { return .done(0) }
        emptyErrorQueue()
        let length = min(blockedLength ?? .max, CInt(clamping: bytes.count))
        let count = unsafe SSL_write(ssl, bytes.baseAddress, length)
        blockedLength = count > 0 ? nil : length
        return count > 0 ? .done(Int(count)) : progress(count)
    }

    /// Whether OpenSSL holds decrypted bytes, which poll(2) cannot see. A partial record does not count: poll(2) reports its
    /// rest.
    public var hasPending: Bool { unsafe SSL_pending(ssl) > 0 }

    /// Sends close_notify. The socket closes with the stream.
    public mutating func shutdown() {
        ERR_clear_error()
        unsafe SSL_shutdown(ssl)
        ERR_clear_error()
    }

    /// The version, for example `TLSv1.3`, after the handshake.
    public var version: String { unsafe String(cString: SSL_get_version(ssl)) }

    /// The peer's certificate in DER, if it presented one.
    public var peerCertificateDER: [UInt8]? {
        guard let certificate = unsafe shim_SSL_get1_peer_certificate(ssl) else { return nil }
        defer { unsafe X509_free(certificate) }
        var der: UnsafeMutablePointer<UInt8>?
        let length = unsafe i2d_X509(certificate, &der)
        guard length > 0, let der = unsafe der else { return nil }
        defer { unsafe CRYPTO_free(der, #file, #line) }
        return unsafe Array(UnsafeBufferPointer(start: der, count: Int(length)))
    }

    private var chosenProtocol: String {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        unsafe SSL_get0_alpn_selected(ssl, &name, &length)
        return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }

    /// `SSL_get_error` takes an error that another call has left for one of this stream. The queue is nearly always empty, but
    /// `ERR_clear_error` frees its 16 places each time (measured: 840 instructions).
    private func emptyErrorQueue() {
        if ERR_peek_error() != 0 { ERR_clear_error() }
    }

    private func progress(_ status: CInt) -> Progress {
        let code = errno
        switch unsafe SSL_get_error(ssl, status) {
        case SSL_ERROR_WANT_READ: return .needsRead
        case SSL_ERROR_WANT_WRITE: return .needsWrite
        case SSL_ERROR_ZERO_RETURN: return .closed
        case SSL_ERROR_SYSCALL:
            ERR_clear_error()
            return code == 0 ? .closed : .failed(.system("TLS connection", errno: code))
        default: return .failed(.tls(failure()))
        }
    }

    private func failure() -> TLSError {
        let verified = unsafe SSL_get_verify_result(ssl)
        let (code, text) = takeOpenSSLError()
        if shim_ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED {
            return unsafe .untrusted(String(cString: X509_verify_cert_error_string(verified)))
        }
        // Alerts 41 to 49, without 47, and 116 concern the certificate that we presented or did not (RFC 8446, 6.2); OpenSSL
        // adds 1000.
        let illegalParameter: CInt = 47
        let alert = shim_ERR_GET_REASON(code) - 1000
        if alert == 116 { return .ourCertificateRefused("it requires one, and none was presented") }
        if (41...49).contains(alert) && alert != illegalParameter { return .ourCertificateRefused(text) }
        // A peer that closes without close_notify (TLS 1.3 servers often do).
        if shim_ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING { return .other("closed without notice") }
        return .other(text)
    }
}
