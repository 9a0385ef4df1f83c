/// Why the simulator cannot start or make what it was asked for: a sentence for people, without secrets.
public struct SimulatorError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String
    public init(_ description: String) { self.description = description }
}
