import JSONBytes

/// The fault of a value.
struct SettingError: Error {
    var text: String
    /// `nil` is what the type expects.
    var expected: String?

    static func invalid(_ value: JSONValue) -> SettingError { SettingError(text: "invalid value \(value.shown)") }
}
