/// Where a text stops being JSON, and what would be right there.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What the grammar asks for. The raw value is the wording.
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

    /// Bytes from the start of the text, from 0; the length of the text where it ends too early.
    public var offset: Int
    public var expected: Expectation

    public init(offset: Int, expected: Expectation) {
        self.offset = offset
        self.expected = expected
    }

    /// As in "expected ',' at byte 17".
    public var description: String { "expected \(expected.rawValue) at byte \(offset)" }
}
