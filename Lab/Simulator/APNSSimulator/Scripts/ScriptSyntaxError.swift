/// An invalid value on the command line, with the expected form.
public struct ScriptSyntaxError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String
    init(_ description: String) { self.description = description }
}
