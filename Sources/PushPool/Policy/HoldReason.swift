/// The reason for which an app is held. Its jobs stay in the queue, uncounted, until the operator has corrected the fault.
@usableFromInline
package enum HoldReason: Equatable, Sendable {
    /// 403, with APNs' reason; or the TLS error with which the server refused our certificate.
    case credential(String)
    /// The files of the credential have a fault: their faults. No session is opened. A file of `apps_dir` is watched.
    case unusable(String, inAppsFolder: Bool = false)
    /// The certificate chain of the server is not trusted: the TLS error.
    case untrusted(String)
    /// APNs refuses a topic from the settings or the certificate.
    case topic(String)
    /// Only suspect tokens, 20 in a row.
    case suspectTokens
    /// 429 TooManyProviderTokenUpdates: the token is kept, and no other is signed for 20 minutes.
    case tokenUpdates
    /// 429 for a reason that concerns neither a device nor the provider token: status and reason.
    case throttled(String)
    /// APNs answers with errors of its own (5xx), or not in time, and accepts nothing.
    case failing
    /// The settings no longer have the app.
    case removed
    /// A rule of the operator holds the app after this response: status and reason.
    case rule(String)

    /// The reason for which a session ended, if the credential is the cause.
    package init?(_ error: SessionError) {
        switch error {
        case .dial(let text, isCredential: true): self = .credential(text)
        case .untrusted(let text): self = .untrusted(text)
        case .goAway(_, let reason) where Self.credentialReasons.contains(reason): self = .credential(reason)
        default: return nil
        }
    }

    /// The sentences for the operator of the daemon and for the caller of the client library: the cause, and what to check.
    package var sentences: (daemon: String, client: String) {
        switch self {
        case .credential(let why):
            let start = "APNs does not accept the credential (\(why)): check the key or certificate, its team, "
            return (start + "its environment and the clock", start + "the server and the clock")
        case .unusable(let why, let inAppsFolder):
            let fault = "credential cannot be used (\(why))"
            let remedy = inAppsFolder ? "replace the file of the app in apps_dir" : "send SIGHUP"
            return ("The \(fault): correct it, then \(remedy)", "the \(fault)")
        case .untrusted(let why):
            return (
                "The identity of the APNs server cannot be verified (\(why)): "
                    + "check apns_ca_path, apns_server, the system's root certificates and the clock",
                "the identity of the APNs server cannot be verified (\(why)): check the root certificates and the clock"
            )
        case .topic(let why):
            let start = "APNs does not accept the topic "
            return (
                start + "from the settings or the certificate (\(why)): check apns_topic", start + "of the configuration (\(why))"
            )
        case .suspectTokens:
            let cause = "APNs has rejected \(CircuitBreaker.caution) device tokens in a row"
            return ("\(cause): wrong environment or topic?", "\(cause): wrong server or topic?")
        case .tokenUpdates:
            let cause =
                "APNs reports too many provider token updates: the present token is kept, and no other is signed for 20 minutes"
            return (cause, cause)
        case .throttled(let why):
            let cause = "APNs asks for fewer pushes (\(why))"
            return ("\(cause): one job at a time probes until APNs accepts it", cause)
        case .failing:
            let cause = "APNs is failing"
            return ("\(cause): 20 or more responses in a row were errors of APNs (5xx) or request timeouts", cause)
        case .removed:
            let cause = "The settings no longer have the app"
            return ("\(cause): its jobs wait until they have it again", cause)
        case .rule(let why):
            let cause = "APNs has responded \(why)"
            return ("\(cause), and retry_rules hold the app for it", cause)
        }
    }

    /// The sentence for the operator with its final punctuation.
    package var wholeSentence: String {
        let sentence = sentences.daemon
        return sentence.hasSuffix("?") ? sentence : "\(sentence)."
    }

    /// The reason of 403 for a signing key of the other environment: as Apple's pages spell it, and as APNs is known to send it.
    package static let badEnvironmentKey: Set<String> = ["BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken"]

    /// Reasons of 403 that a GOAWAY may carry.
    private static let credentialReasons: Set<String> = badEnvironmentKey.union([
        "BadCertificate", "BadCertificateEnvironment", "ExpiredProviderToken", "InvalidProviderToken",
        "MissingProviderToken", "Forbidden", "UnrelatedKeyIdInToken",
    ])

    /// Whether both ask the operator to check the same things, whatever their texts are.
    package func isLike(_ other: HoldReason) -> Bool {
        switch (self, other) {
        case (.credential, .credential), (.untrusted, .untrusted), (.topic, .topic), (.rule, .rule): true
        default: self == other
        }
    }

    /// Whether APNs may go on refusing on the present sessions, so that a probe needs new ones.
    package var isOfSessions: Bool {
        switch self {
        case .credential, .untrusted, .topic, .tokenUpdates: true
        case .unusable, .suspectTokens, .throttled, .failing, .removed, .rule: false
        }
    }

    /// Whether APNs may give this response for a fault of one job.
    package var mayBeOfOneJob: Bool {
        switch self {
        case .credential, .topic, .rule: true
        case .unusable, .untrusted, .suspectTokens, .tokenUpdates, .throttled, .failing, .removed: false
        }
    }
}
