/// What the machine does not allow: the row is left out, with the reason.
public struct TrialNotPossible: Error, CustomStringConvertible {
    public var description: String
}
