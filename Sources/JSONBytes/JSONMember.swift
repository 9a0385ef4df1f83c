/// One member of an object.
public struct JSONMember: Sendable, Equatable {
    public var key: String
    public var value: JSONValue
    /// The offset of the key's opening quote from the start of the text.
    public var offset: Int

    public init(key: String, value: JSONValue, offset: Int) {
        self.key = key
        self.value = value
        self.offset = offset
    }
}
