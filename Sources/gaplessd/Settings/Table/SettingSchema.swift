import JSONBytes

/// The JSON values that a setting accepts, as far as JSON Schema can say it.
indirect enum SettingSchema: Sendable, Equatable {
    /// Any string but an empty one.
    case text
    /// A string that may be empty.
    case anyText
    /// A string that matches a regular expression of ECMA-262.
    case pattern(String)
    case choice([String])
    case flag
    case integer(ClosedRange<Int>)
    case number(ClosedRange<Double>)
    case zero
    case array(SettingSchema, isEmptyAllowed: Bool, isUnique: Bool)
    /// The object of `apps`.
    case apps
    /// The object of `relay_headers`.
    case headers
    case any([SettingSchema])

    /// Whether every value is a string.
    var isText: Bool {
        switch self {
        case .text, .anyText, .pattern, .choice: true
        case .flag, .integer, .number, .zero, .array, .apps, .headers: false
        case .any(let schemas): schemas.allSatisfy(\.isText)
        }
    }
}
