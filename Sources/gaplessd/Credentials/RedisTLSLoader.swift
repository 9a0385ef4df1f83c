import PushPool
import Sockets

/// Makes one context of the files, and collects every fault on the way.
struct RedisTLSLoader {
    private static let mostBytes = 4 << 20

    private(set) var faults: [SettingsError] = []

    /// `nil` only where faults were found.
    mutating func context(_ files: Settings.Redis.TLS) -> TLSContext? {
        checkRoots(files.rootsPath)
        let areRootsRight = faults.isEmpty
        let identity = identity(files)
        guard areRootsRight || identity != nil else { return nil }
        do {
            // Faulty roots hide nothing of the rest.
            let context = try TLSContext(
                clientTrusting: areRootsRight ? files.rootsPath : nil, onlyThose: areRootsRight, identity: identity, protocols: []
            )
            return faults.isEmpty ? context : nil
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
        guard let path = files.certificatePath else { return nil }
        let found = faults.count
        let keyPath = files.keyPath ?? path
        let certificate = read(path, "redis_cert_path")
        if let certificate, let error = Credential.fault(ofCertificates: certificate) {
            fault("redis_cert_path", "\(path): \(error)", "")
        }
        let key = keyPath == path ? certificate : read(keyPath, "redis_key_path")
        if let key { checkKey(key, keyPath) }
        guard faults.count == found, let certificate, let key else { return nil }
        return TLSContext.Identity(certificatesPEM: certificate, keyPEM: key)
    }

    private mutating func checkKey(_ pem: [UInt8], _ path: String) {
        guard let error = Credential.fault(ofKey: pem, passphrase: nil) else { return }
        let isEncrypted = String(decoding: pem, as: UTF8.self).split(whereSeparator: \.isNewline).contains {
            $0.hasPrefix("-----BEGIN ENCRYPTED") || $0.hasPrefix("Proc-Type: 4,ENCRYPTED")
        }
        if isEncrypted {
            fault("redis_key_path", "\(path) holds an encrypted key", "a key without a password would be right")
        } else {
            fault("redis_key_path", "\(path): \(error)", "")
        }
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
        faults.append(SettingsError(key: key, problem: problem, remedy: remedy))
    }
}
