internal import COpenSSL

/// Whom a client trusts: the system's roots, those of a bundle, or both.
///
/// To read the system's some 140 takes 20 ms, and they take a megabyte: contexts that trust the same share one of these.
public final class TLSRoots: @unchecked Sendable {  // OpenSSL locks a store, and counts references to it with atomics.
    let store: OpaquePointer

    /// Reads them now. What the files say later is seen by who reads them anew.
    ///
    /// - Parameters:
    ///   - path: a PEM bundle.
    ///   - onlyThose: nothing beside the bundle, where one is given.
    public init(bundle path: String?, onlyThose: Bool = false) throws(TLSError) {
        ERR_clear_error()
        guard let store = X509_STORE_new() else { throw .other(takeOpenSSLError().text) }
        self.store = store
        if path == nil || !onlyThose { X509_STORE_set_default_paths(store) }
        guard let path else { return }
        ERR_clear_error()
        guard X509_STORE_load_locations(store, path, nil) == 1 else {
            throw .other("cannot read the CA bundle \(path): \(takeOpenSSLError().text)")
        }
    }

    deinit { X509_STORE_free(store) }
}
