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
    func tlsContext() throws(RedisTLSRefusal) -> TLSContext? {
        guard let tls else { return nil }
        var loader = RedisTLSLoader()
        guard let context = loader.context(tls) else { throw RedisTLSRefusal(faults: loader.faults) }
        return context
    }
}

/// What is wrong with the files for TLS to Redis. They were read once with the settings: since then somebody has changed them.
struct RedisTLSRefusal: Error, Equatable {
    var faults: [SettingsFault]
}

/// Makes one context of the files, and collects every fault on the way.
struct RedisTLSLoader {
    private static let mostBytes = 4 << 20

    private(set) var faults: [SettingsFault] = []

    /// `nil` only where faults were found.
    mutating func context(_ files: Settings.Redis.TLS) -> TLSContext? {
        checkRoots(files.rootsPath)
        let identity = identity(files)
        guard faults.isEmpty else { return nil }
        do {
            return try TLSContext(clientTrusting: files.rootsPath, onlyThose: true, identity: identity, protocols: [])
        } catch {
            let paths = [files.certificatePath, files.keyPath].compactMap(\.self).joined(separator: " and ")
            fault("redis_cert_path", "\(paths): \(error)", "a certificate and its own key, both PEM, would be right")
            return nil
        }
    }

    private mutating func checkRoots(_ path: String?) {
        guard let path, read(path, "redis_ca_path") != nil else { return }
        do {
            _ = try TLSContext(clientTrusting: path, onlyThose: true, identity: nil, protocols: [])
        } catch {
            fault("redis_ca_path", "\(path) holds no certificates", "a PEM bundle of roots would be right")
        }
    }

    private mutating func identity(_ files: Settings.Redis.TLS) -> TLSContext.Identity? {
        guard let path = files.certificatePath, let certificate = read(path, "redis_cert_path") else { return nil }
        let keyPath = files.keyPath ?? path
        guard let key = keyPath == path ? certificate : read(keyPath, "redis_key_path") else { return nil }
        return checked(TLSContext.Identity(certificatesPEM: certificate, keyPEM: key), keyPath)
    }

    private mutating func checked(_ identity: TLSContext.Identity, _ keyPath: String) -> TLSContext.Identity? {
        let text = String(decoding: identity.keyPEM, as: UTF8.self)
        let isEncrypted = text.split(whereSeparator: \.isNewline).contains {
            $0.hasPrefix("-----BEGIN ENCRYPTED") || $0.hasPrefix("Proc-Type: 4,ENCRYPTED")
        }
        if !isEncrypted { return identity }
        fault("redis_key_path", "\(keyPath) holds an encrypted key", "a key without a password would be right")
        return nil
    }

    private mutating func read(_ path: String, _ key: String) -> [UInt8]? {
        do {
            return try FileBytes.read(path, atMost: Self.mostBytes)
        } catch {
            fault(key, "\(path) cannot be read: \(error)", "a file that this user may read would be right")
            return nil
        }
    }

    private mutating func fault(_ key: String, _ problem: String, _ remedy: String) {
        faults.append(SettingsFault(key: key, problem: problem, remedy: remedy))
    }
}
