/// A field that makes the compiler pass its owner by address.
///
/// Without it, each call that only reads a large value receives a copy of its memory: 700 bytes for each question to the machine
/// of the dispatcher, several times for each push. An owner with a value of unknown size is read in its place.
public struct ByAddress: Sendable {
    private let unknown: any Sendable = ()

    public init() {}
}
