import PushPool
import Sockets

extension Settings.Redis {
    /// The files for TLS to Redis.
    struct TLS: Sendable, Equatable {
        /// Trusted instead of the system's roots, as `redis-cli --cacert` does.
        var rootsPath: String?
        /// What Redis is shown, where it asks.
        var certificatePath: String?
        /// `nil`: the key stands in the certificate's file.
        var keyPath: String?
    }

    /// What connections to Redis are to trust and show; `nil` without TLS.
    func tlsContext() throws(RedisTLSError) -> TLSContext? {
        guard let tls else { return nil }
        var loader = RedisTLSLoader()
        guard let context = loader.context(tls) else { throw RedisTLSError(faults: loader.faults) }
        return context
    }
}
