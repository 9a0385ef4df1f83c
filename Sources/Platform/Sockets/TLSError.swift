internal import COpenSSL

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
