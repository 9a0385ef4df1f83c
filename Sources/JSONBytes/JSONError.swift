/// The place at which a text stops being JSON, and the element that the grammar expects there.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
    /// An element of the grammar. The raw value is the wording.
    public enum Expectation: String, Sendable, Equatable {
        case value = "a value"
        case object = "'{'"
        case array = "'['"
        case key = "a key"
        case keyOrEnd = "a key or '}'"
        case colon = "':'"
        case comma = "','"
        case commaOrObjectEnd = "',' or '}'"
        case commaOrArrayEnd = "',' or ']'"
        case valueOrArrayEnd = "a value or ']'"
        case quote = "'\"'"
        case noControlCharacter = "an escape instead of a control character"
        case escape = "one of \"\\/bfnrtu"
        case hexDigit = "a hex digit"
        case digit = "a digit"
        case validUTF8 = "valid UTF-8"
        case end = "nothing more"
        case lessNesting = "fewer nested values"
    }

    /// Bytes from the start of the text; its length if it ends too early.
    public var offset: Int
    public var expected: Expectation

    public init(offset: Int, expected: Expectation) {
        self.offset = offset
        self.expected = expected
    }

    /// For example: expected ',' at byte 17.
    public var description: String { "expected \(expected.rawValue) at byte \(offset)" }
}
