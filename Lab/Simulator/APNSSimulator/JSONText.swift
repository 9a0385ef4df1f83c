import JSONBytes

extension String {
    /// A JSON string with quotes.
    var quotedJSON: String {
        var bytes: [UInt8] = []
        bytes.appendJSONString(self)
        return String(decoding: bytes, as: UTF8.self)
    }
}
