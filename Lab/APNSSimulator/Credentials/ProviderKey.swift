/// A provider signing key that the simulator knows: what Apple shows in a developer account.
public struct ProviderKey: Sendable, Equatable {
    /// 10 characters; the token's `kid`.
    public var keyID: String
    /// 10 characters; the token's `iss`.
    public var teamID: String
    /// PEM of the private key (a `.p8`) or of the public one.
    public var pem: [UInt8]
    /// `nil` for a key that is good for both, as those made before February 2025 are.
    public var environment: PushEnvironment?
    /// Bundle ids of a topic-specific key; `nil` for a team-scoped one.
    public var topics: [String]?
    /// Another topic-specific key that may share a connection with this one.
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

    /// May follow `first` on one connection: team-scoped keys of one environment, or topic-specific ones that say so.
    func isRelated(to first: ProviderKey) -> Bool {
        if keyID == first.keyID { return true }
        if topics == nil && first.topics == nil { return environment == first.environment }
        guard topics != nil, first.topics != nil else { return false }
        return relatedKeyID == first.keyID || first.relatedKeyID == keyID
    }
}

extension ProviderKey: CustomStringConvertible {
    /// Says which key it is and nothing of what it contains.
    public var description: String { "provider key \(keyID) of team \(teamID)" }
}
