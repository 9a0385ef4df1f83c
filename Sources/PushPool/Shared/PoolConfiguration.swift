internal import Platform

/// The settings and the credential of one generation of sessions.
struct PoolConfiguration: Sendable {
    let settings: PoolSettings
    let tls: TLSContext
    /// `nil` with a client certificate.
    let tokens: ProviderTokenSource?

    /// - Parameter roots: the roots read from `settings.extraRootsPath`; `nil` reads them.
    init(settings: PoolSettings, credential: Credential, roots: TLSRoots? = nil) throws(CredentialError) {
        self.settings = settings
        tokens = credential.tokens
        do throws(TLSError) {
            let trusted: TLSRoots
            if let roots { trusted = roots } else { trusted = try TLSRoots(bundle: settings.extraRootsPath) }
            tls = try TLSContext(clientTrusting: trusted, identity: credential.identity, protocols: ["h2"])
        } catch { throw CredentialError(error.description) }
    }

    /// The value of `:authority`, without the scheme's default port (RFC 9110, 4.2.3).
    var authority: String {
        let host = settings.host.contains(":") ? "[\(settings.host)]" : settings.host
        return settings.port == 443 ? host : "\(host):\(settings.port)"
    }

    /// A session allocates memory for all its streams, so a limit protects the machine's memory.
    static let mostStreams = 65_536

    /// Our own limit on a session's open streams, 0 to `mostStreams`.
    var streams: Int { max(0, min(settings.maxConcurrentStreams, PoolConfiguration.mostStreams)) }
}
