import PushPool

extension HoldReason {
    /// The sentence with its final punctuation.
    var wholeSentence: String { sentence.hasSuffix("?") ? sentence : "\(sentence)." }

    /// The cause of the hold and what the operator should check.
    var sentence: String {
        switch self {
        case .credential(let why):
            "APNs does not accept the credential (\(why)): check the key or certificate, its team, its environment and the clock"
        case .untrusted(let why):
            "The identity of the APNs server cannot be verified (\(why)): "
                + "check apns_ca_path, apns_server, the system's root certificates and the clock"
        case .topic(let why):
            "APNs does not accept the topic from the settings or the certificate (\(why)): check apns_topic"
        case .suspectTokens:
            "APNs has rejected 20 device tokens in a row: wrong environment or topic?"
        case .tokenUpdates:
            "APNs reports too many provider token updates: the present token is kept, and no other is signed for 20 minutes"
        case .throttled(let why):
            "APNs asks for fewer pushes (\(why)): one job at a time probes until APNs accepts it"
        case .failing:
            "APNs is failing: 20 or more responses in a row were errors of APNs (5xx) or request timeouts"
        }
    }
}
