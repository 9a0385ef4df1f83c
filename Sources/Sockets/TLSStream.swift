internal import COpenSSL
import Glibc

/// One `SSL` on one socket: bytes in and out, never blocking.
public struct TLSStream: ~Copyable {
    private let ssl: OpaquePointer
    private let socket: Socket
    private let wantedProtocol: String?

    public var descriptor: CInt { socket.descriptor }

    /// A client's end, before its handshake.
    ///
    /// - Parameters:
    ///   - host: goes into SNI and must be in the server's certificate: a name, or an address literal.
    ///   - wantedProtocol: what ALPN must end in (`h2`).
    public init(client socket: consuming Socket, host: String, wantedProtocol: String?, _ context: TLSContext) throws(TLSError) {
        ERR_clear_error()
        guard let ssl = SSL_new(context.context) else { throw .other(takeOpenSSLError().text) }
        SSL_set_fd(ssl, socket.descriptor)
        let parameters = SSL_get0_param(ssl)
        // An address literal is matched against the certificate's IP entries and never goes into SNI (RFC 6066, 3).
        if X509_VERIFY_PARAM_set1_ip_asc(parameters, host) != 1 {
            ERR_clear_error()
            X509_VERIFY_PARAM_set1_host(parameters, host, 0)
            _ = shim_SSL_set_tlsext_host_name(ssl, host)
        }
        SSL_set_connect_state(ssl)
        self.ssl = ssl
        self.socket = socket
        self.wantedProtocol = wantedProtocol
    }

    /// A server's end, before its handshake.
    public init(server socket: consuming Socket, _ context: TLSContext) throws(TLSError) {
        ERR_clear_error()
        guard let ssl = SSL_new(context.context) else { throw .other(takeOpenSSLError().text) }
        SSL_set_fd(ssl, socket.descriptor)
        SSL_set_accept_state(ssl)
        self.ssl = ssl
        self.socket = socket
        wantedProtocol = nil
    }

    deinit { SSL_free(ssl) }

    /// Goes on with the handshake. `.done(0)` when it is complete, the chain verified and ALPN agreed.
    public mutating func handshake() -> Progress {
        ERR_clear_error()
        let status = SSL_do_handshake(ssl)
        if status != 1 { return progress(status) }
        if let wantedProtocol, chosenProtocol != wantedProtocol {
            return .failed(.tls(.noProtocol(wanted: wantedProtocol, got: chosenProtocol)))
        }
        return .done(0)
    }

    public mutating func read(into buffer: UnsafeMutableRawBufferPointer) -> Progress {
        ERR_clear_error()
        let count = SSL_read(ssl, buffer.baseAddress, CInt(clamping: buffer.count))
        return count > 0 ? .done(Int(count)) : progress(count)
    }

    /// One TLS record holds 16,384 bytes: hand over that many at a time, and no small remainder gets a record of its own.
    public mutating func write(_ bytes: UnsafeRawBufferPointer) -> Progress {
        if bytes.isEmpty { return .done(0) }
        ERR_clear_error()
        let count = SSL_write(ssl, bytes.baseAddress, CInt(clamping: bytes.count))
        return count > 0 ? .done(Int(count)) : progress(count)
    }

    /// Bytes that are decrypted already: poll(2) does not know of them.
    public var hasPending: Bool { SSL_has_pending(ssl) == 1 }

    /// Tells the peer that nothing more comes (close_notify). The socket closes with the stream.
    public mutating func shutdown() {
        ERR_clear_error()
        SSL_shutdown(ssl)
        ERR_clear_error()
    }

    /// `TLSv1.3` and the like, once the handshake is done.
    public var version: String { String(cString: SSL_get_version(ssl)) }

    /// The peer's certificate in DER, if it showed one.
    public var peerCertificateDER: [UInt8]? {
        guard let certificate = shim_SSL_get1_peer_certificate(ssl) else { return nil }
        defer { X509_free(certificate) }
        var der: UnsafeMutablePointer<UInt8>?
        let length = i2d_X509(certificate, &der)
        guard length > 0, let der else { return nil }
        defer { CRYPTO_free(der, #file, #line) }
        return Array(UnsafeBufferPointer(start: der, count: Int(length)))
    }

    /// TCP_USER_TIMEOUT of the socket underneath.
    public func setUserTimeout(_ limit: Duration) { socket.setUserTimeout(limit) }

    private var chosenProtocol: String {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        return String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }

    private func progress(_ status: CInt) -> Progress {
        let code = errno
        switch SSL_get_error(ssl, status) {
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
        let verified = SSL_get_verify_result(ssl)
        let (code, text) = takeOpenSSLError()
        if shim_ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED {
            return .untrusted(String(cString: X509_verify_cert_error_string(verified)))
        }
        // Alerts 41 to 49 and 116 speak of the certificate we showed or did not show (RFC 8446, 6.2); OpenSSL adds 1000.
        let alert = shim_ERR_GET_REASON(code) - 1000
        if alert == 116 { return .ourCertificateRefused("it wants one, and none was shown") }
        if (41...49).contains(alert) { return .ourCertificateRefused(text) }
        // A peer that closes without close_notify (TLS 1.3 servers often do).
        if shim_ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING { return .other("closed without notice") }
        return .other(text)
    }
}
