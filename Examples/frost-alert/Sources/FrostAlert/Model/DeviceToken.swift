/// The token of a device, as `register(_:)` of the app received it: hex digits, stored in lower case.
struct DeviceToken: Hashable, Sendable {
    /// APNs has no documented length; 64 digits are usual.
    static let lengths = 1...200

    let hex: String

    /// Returns `nil` for a text that is not a token.
    init?(_ text: String) {
        guard Self.lengths.contains(text.utf8.count), text.utf8.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else {
            return nil
        }
        hex = text.lowercased()
    }
}
