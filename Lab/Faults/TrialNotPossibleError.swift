/// The machine does not allow this row.
public struct TrialNotPossibleError: Error, CustomStringConvertible {
    public var description: String
}
