internal import COpenSSL

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
