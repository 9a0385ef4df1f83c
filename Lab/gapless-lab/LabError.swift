import Harness

/// A run that did not show what it should.
struct LabError: Error, CustomStringConvertible {
    var description: String
}
