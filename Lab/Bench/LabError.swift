import Harness

/// A failed run.
struct LabError: Error, CustomStringConvertible {
    var description: String
}
