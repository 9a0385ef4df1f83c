import JSONBytes

/// One member of `relay_headers`.
struct RelayHeader: Sendable, Equatable {
    /// The words after "expected" in a fault.
    static let expected = "an object of header names and values, such as {\"Authorization\": \"…\"}"
    /// Bytes of a value.
    private static let mostBytes = 8192
    /// Headers that the relay writes itself, and those that concern the connection (RFC 9110, 7.6.1).
    private static let reserved: Set<String> = [
        "host", "content-length", "content-type", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te",
        "trailer", "upgrade", "expect", "x-gapless-signature",
    ]
    private static let punctuation = Set("!#$%&'*+-.^_`|~".utf8)

    let name: String
    let value: Secret

    /// Reads the members of the object. A fault names no value.
    static func read(_ members: [JSONMember]) throws(SettingError) -> [RelayHeader] {
        var headers: [RelayHeader] = []
        var names: Set<String> = []
        for member in members {
            // A name that is none may be a value at the wrong place.
            guard !member.key.isEmpty, member.key.utf8.count <= 256, member.key.utf8.allSatisfy(isToken) else {
                throw SettingError(text: "a name is not the name of a header", expected: "letters, digits and hyphens")
            }
            let name = member.key.lowercased()
            if reserved.contains(name) {
                throw SettingError(text: "\(member.key) is set by the relay", expected: "other headers")
            }
            guard names.insert(name).inserted else {
                throw SettingError(text: "\(member.key) occurs twice", expected: "each header at most once")
            }
            guard let text = member.value.stringValue, (1...mostBytes).contains(text.utf8.count),
                text.utf8.allSatisfy({ 0x20...0x7E ~= $0 }), !text.hasPrefix(" "), !text.hasSuffix(" ")
            else {
                throw SettingError(
                    text: "invalid value of \(member.key) (hidden)",
                    expected: "1 to \(mostBytes) printable ASCII characters, without a space at an end")
            }
            headers.append(RelayHeader(name: member.key, value: Secret(text)))
        }
        return headers
    }

    /// A character of a token (RFC 9110, 5.6.2).
    private static func isToken(_ byte: UInt8) -> Bool {
        punctuation.contains(byte) || 0x30...0x39 ~= byte || 0x41...0x5A ~= byte || 0x61...0x7A ~= byte
    }
}
