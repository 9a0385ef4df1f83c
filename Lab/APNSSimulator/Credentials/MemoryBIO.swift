internal import COpenSSL

/// Memory that OpenSSL's readers and writers of files use.
enum MemoryBIO {
    static func read<Result>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
        bytes.withUnsafeBytes { raw in
            let bio = BIO_new_mem_buf(raw.baseAddress, CInt(raw.count))
            defer { BIO_free(bio) }
            return body(bio)
        }
    }

    /// Returns the written bytes; empty if `body` fails.
    static func written(by body: (OpaquePointer?) -> CInt) -> [UInt8] {
        let bio = BIO_new(BIO_s_mem())
        defer { BIO_free(bio) }
        guard body(bio) == 1 else { return [] }
        var data: UnsafeMutablePointer<CChar>?
        let length = shim_BIO_get_mem_data(bio, &data)
        guard let data, length > 0 else { return [] }
        return UnsafeRawBufferPointer(start: data, count: length).map { $0 }
    }
}
