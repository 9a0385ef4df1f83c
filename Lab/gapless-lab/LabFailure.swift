import Harness

/// A run that did not show what it should.
struct LabFailure: Error, CustomStringConvertible {
    var description: String
}
