/// An error of the simulator, with a message that contains no secrets.
public struct SimulatorError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String
    public init(_ description: String) { self.description = description }
}
