import APNSSimulator
import Harness
import RedisQueue

/// Certificates and a port for a Redis with TLS.
struct SecureRedis {
    let folder: TemporaryFolder
    let port = FreePort.pick()

    /// - Parameter serverNames: of the server certificate; `nil` uses the names of this machine.
    init(serverNames: [String]? = nil) throws {
        folder = TemporaryFolder()
        var request = Credentials.Request()
        if let serverNames { request.serverNames = serverNames }
        try Credentials.make(request).write(to: folder.path)
    }

    /// Options of redis-server, which requires a client certificate.
    var options: [String] { ["--tls-port", String(port)] + files }

    private var files: [String] {
        [
            "--tls-cert-file", folder.file("server.pem"), "--tls-key-file", folder.file("server-key.pem"), "--tls-ca-cert-file",
            folder.file("ca.pem"), "--tls-client-cert-file", folder.file("client.pem"), "--tls-client-key-file",
            folder.file("client-key.pem"),
        ]
    }

    /// Options of a cluster node or Sentinel with its own port, which also uses TLS with its peers.
    func options(port: Int, for peers: String) -> [String] { ["--tls-port", String(port), "--\(peers)", "yes"] + files }

    /// Settings, as raw JSON by key.
    var settings: [String: String?] {
        [
            "redis_socket_path": nil, "redis_host": "\"localhost\"", "redis_port": String(port), "redis_tls": "true",
            "redis_ca_path": "\"\(folder.file("ca.pem"))\"", "redis_cert_path": "\"\(folder.file("client.pem"))\"",
            "redis_key_path": "\"\(folder.file("client-key.pem"))\"",
        ]
    }

    func settings(_ changes: [String: String?]) -> [String: String?] { settings.merging(changes) { $1 } }
}

extension [String] {
    /// Options and their values.
    var pairs: [(String, String)] { stride(from: 0, to: count - 1, by: 2).map { (self[$0], self[$0 + 1]) } }
}
