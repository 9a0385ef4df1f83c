import PushPool

/// Why an app's jobs stay in the queue: nothing is counted and nothing buried until the operator has mended it.
enum HoldReason: Equatable, Sendable {
    /// 403, with APNs' reason; or TLS refused our certificate: the text.
    case credential(String)
    /// We do not trust the server's chain: the text. For the jobs it is as a credential that is refused.
    case untrusted(String)
    /// A topic of the settings or the certificate that APNs refuses.
    case topic(String)
    /// Only suspect tokens so far.
    case suspectTokens
    /// 429 TooManyProviderTokenUpdates: the token is kept, and nothing minted for 20 minutes.
    case tokenUpdates
    /// 429 for another reason than a device or the provider token: status and reason.
    case throttled(String)

    /// A session that ended for our credential's sake.
    init?(_ fault: SessionError) {
        switch fault {
        case .dial(let text, isCredential: true): self = .credential(text)
        case .untrusted(let text): self = .untrusted(text)
        case .goAway(_, let reason) where Self.credentialReasons.contains(reason): self = .credential(reason)
        default: return nil
        }
    }

    /// The reasons of APNs' 403 family that a GOAWAY may carry; both spellings of the last are about.
    private static let credentialReasons: Set<String> = [
        "BadCertificate", "BadCertificateEnvironment", "InvalidProviderToken", "MissingProviderToken", "Forbidden",
        "UnrelatedKeyIdInToken", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken",
    ]

    /// Whether the operator should look at the same things, whatever the text says.
    func isLike(_ other: HoldReason) -> Bool {
        switch (self, other) {
        case (.credential, .credential), (.untrusted, .untrusted), (.topic, .topic): true
        default: self == other
        }
    }

    /// Whether sessions that were refused so may be wedged, and others are to be asked.
    var isOfSessions: Bool {
        switch self {
        case .credential, .untrusted, .topic, .tokenUpdates: true
        case .suspectTokens, .throttled: false
        }
    }

    /// The sentence with the mark that ends it.
    var wholeSentence: String { sentence.hasSuffix("?") ? sentence : "\(sentence)." }

    /// What the operator should look at.
    var sentence: String {
        switch self {
        case .credential(let why):
            "APNs does not accept the credential (\(why)): check the key or certificate, its team, its environment and the clock"
        case .untrusted(let why):
            "No connection to APNs can be trusted (\(why)): check apns_ca_path, apns_server, the system's root certificates and the clock"
        case .topic(let why):
            "APNs does not accept the topic from the settings or the certificate (\(why)): check apns_topic"
        case .suspectTokens:
            "APNs has refused every device token so far: wrong environment or topic?"
        case .tokenUpdates:
            "APNs says that the provider token changed too often: it is kept, and none is made for 20 minutes"
        case .throttled(let why):
            "APNs asks for fewer pushes (\(why)): one at a time goes out until they are welcome again"
        }
    }
}
