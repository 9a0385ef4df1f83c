/// A word of the command line that cannot be understood: which, and what would be right.
public struct ScriptSyntaxError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String
    init(_ description: String) { self.description = description }
}
