/// The credentials of a connection.
struct Peer {
    var certificate: ClientCertificate?
    var tokens: ProviderTokenGate
    /// The last valid topic, and the generation of its provider token.
    var goodTopic: [UInt8] = []
    var goodTopicKey = 0
    /// The last topic and push type that go together.
    var goodPair: (topic: [UInt8], type: [UInt8]) = ([], [])
}
