/// A fixture failed: a file, a program or a port.
public struct HarnessError: Error, CustomStringConvertible {
    public var description: String

    public init(_ description: String) { self.description = description }
}
