internal import Sockets
internal import Threads

/// Settings and credential of one generation of sessions.
struct PoolConfiguration: Sendable {
    let settings: PoolSettings
    let tls: TLSContext
    /// `nil` where a client certificate speaks for us.
    let tokens: ProviderTokenSource?

    /// - Parameter roots: read already from `settings.extraRootsPath`; `nil` reads them.
    init(settings: PoolSettings, credential: Credential, roots: TLSRoots? = nil) throws(CredentialError) {
        self.settings = settings
        tokens = credential.tokens
        do throws(TLSError) {
            let trusted: TLSRoots
            if let roots { trusted = roots } else { trusted = try TLSRoots(bundle: settings.extraRootsPath) }
            tls = try TLSContext(clientTrusting: trusted, identity: credential.identity, protocols: ["h2"])
        } catch { throw CredentialError(error.description) }
    }

    /// `:authority`: the port is left out where it is the scheme's own (RFC 9110, 4.2.3).
    var authority: String {
        let host = settings.host.contains(":") ? "[\(settings.host)]" : settings.host
        return settings.port == 443 ? host : "\(host):\(settings.port)"
    }

    /// A session makes room for all its streams at once, so a careless setting must not cost the memory of the machine.
    static let mostStreams = 65_536

    /// Our own ceiling on a session's open streams, 0 to `mostStreams`.
    var streams: Int { max(0, min(settings.maxConcurrentStreams, PoolConfiguration.mostStreams)) }
}
