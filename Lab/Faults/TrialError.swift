/// A run without a result.
public struct TrialError: Error, CustomStringConvertible {
    public var description: String

    public init(description: String) { self.description = description }
}
