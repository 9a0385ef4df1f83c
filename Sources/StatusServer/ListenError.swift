/// Why nobody can be listened to, in the system's own words.
public struct ListenError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String
}
