internal import PushPool

/// The reason for which a client is held, for the caller.
struct HeldText {
    let text: String

    init(_ reason: HoldReason) {
        text =
            switch reason {
            case .credential(let why):
                "APNs does not accept the credential (\(why)): check the key or certificate, its team, the server and the clock"
            case .untrusted(let why): "no connection to APNs can be trusted (\(why)): check the roots and the clock"
            case .topic(let why): "APNs does not accept the topic of the configuration (\(why))"
            case .suspectTokens: "APNs has rejected 20 device tokens in a row: wrong server or topic?"
            case .tokenUpdates: "APNs reports that the provider token changed too often: none is signed for 20 minutes"
            case .throttled(let why): "APNs asks for fewer pushes (\(why))"
            }
    }
}
