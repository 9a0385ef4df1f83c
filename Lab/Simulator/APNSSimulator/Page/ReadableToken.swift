internal import JSONBytes

/// The readable parts of a provider token. The signature is not kept: with it, a reader of the page could send pushes.
struct ReadableToken: Sendable, Equatable {
    private static let mostBytes = 1024

    /// JSON texts.
    var header: [UInt8]
    var claims: [UInt8]

    /// Returns `nil` if the value is not `bearer` and a token with two JSON objects.
    init?(authorization value: ArraySlice<UInt8>) {
        let bearer = Array("bearer ".utf8)
        guard value.prefix(bearer.count).elementsEqual(bearer, by: { $0 | 0x20 == $1 | 0x20 }) else { return nil }
        let parts = value.dropFirst(bearer.count).split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.object(parts[0]), let claims = Self.object(parts[1]) else { return nil }
        (self.header, self.claims) = (header, claims)
    }

    private static func object(_ part: ArraySlice<UInt8>) -> [UInt8]? {
        guard part.count <= mostBytes, let bytes = Base64.decode(part, as: .url), case .object = try? JSONValue.parse(bytes)
        else { return nil }
        return bytes
    }
}
