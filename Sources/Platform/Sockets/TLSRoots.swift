internal import COpenSSL

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

    deinit { unsafe X509_STORE_free(store) }
}
