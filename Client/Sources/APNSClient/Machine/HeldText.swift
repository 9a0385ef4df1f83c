internal import PushPool

/// The reason for which a client is held, for the caller.
struct HeldText {
    let text: String

    init(_ reason: HoldReason) {
        text =
            switch reason {
            case .credential(let why):
                "APNs does not accept the credential (\(why)): check the key or certificate, its team, the server and the clock"
            case .unusable(let why): "the credential cannot be used (\(why))"
            case .untrusted(let why):
                "the identity of the APNs server cannot be verified (\(why)): check the root certificates and the clock"
            case .topic(let why): "APNs does not accept the topic of the configuration (\(why))"
            case .suspectTokens: "APNs has rejected 20 device tokens in a row: wrong server or topic?"
            case .tokenUpdates:
                "APNs reports too many provider token updates: the present token is kept, and no other is signed for 20 minutes"
            case .throttled(let why): "APNs asks for fewer pushes (\(why))"
            case .failing: "APNs is failing"
            }
    }
}
