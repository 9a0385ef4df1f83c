/// A provider signing key that the simulator accepts, with the properties that Apple assigns to it.
public struct ProviderKey: Sendable, Equatable {
    /// The `kid` of the tokens, 10 characters.
    public var keyID: String
    /// The `iss` of the tokens, 10 characters.
    public var teamID: String
    /// PEM of the private key (a `.p8`) or of the public one.
    public var pem: [UInt8]
    /// `nil` for both environments, as for keys made before February 2025.
    public var environment: PushEnvironment?
    /// The bundle ids of a topic-specific key; `nil` for a team-scoped key.
    public var topics: [String]?
    /// The id of another topic-specific key that may share a connection with this key.
    public var relatedKeyID: String?

    public init(
        keyID: String, teamID: String, pem: [UInt8], environment: PushEnvironment? = nil, topics: [String]? = nil,
        relatedKeyID: String? = nil
    ) {
        self.keyID = keyID
        self.teamID = teamID
        self.pem = pem
        self.environment = environment
        self.topics = topics
        self.relatedKeyID = relatedKeyID
    }

    func allows(topic: Span<UInt8>) -> Bool {
        guard let topics else { return true }
        for bundle in topics where RequestValidator.topic(topic, belongsTo: Array(bundle.utf8)) { return true }
        return false
    }

    /// Returns whether a connection of `first` may use this key: both team-scoped of one environment, or related by id.
    func isRelated(to first: ProviderKey) -> Bool {
        if keyID == first.keyID { return true }
        if topics == nil && first.topics == nil { return environment == first.environment }
        guard topics != nil, first.topics != nil else { return false }
        return relatedKeyID == first.keyID || first.relatedKeyID == keyID
    }
}

extension ProviderKey: CustomStringConvertible {
    /// Names the key without its content.
    public var description: String { "provider key \(keyID) of team \(teamID)" }
}
