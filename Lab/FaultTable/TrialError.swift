/// A run that could not be judged at all.
public struct TrialError: Error, CustomStringConvertible {
    public var description: String

    public init(description: String) { self.description = description }
}
