import JSONBytes

/// Why a value is invalid.
struct SettingError: Error {
    var text: String
    /// `nil` is what the type expects.
    var expected: String?

    static func invalid(_ value: JSONValue) -> SettingError { SettingError(text: "invalid value \(value.shown)") }
}
