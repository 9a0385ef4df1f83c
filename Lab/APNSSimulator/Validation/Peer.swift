/// What one connection has shown of itself so far.
struct Peer {
    var certificate: ClientCertificate?
    var tokens: ProviderTokenGate
    /// The topic last found good, and which token that was with.
    var goodTopic: [UInt8] = []
    var goodTopicKey = 0
}
