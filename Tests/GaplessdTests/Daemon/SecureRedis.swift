import APNSSimulator
import Harness
import RedisQueue

/// Certificates and a port for a Redis that speaks TLS.
struct SecureRedis {
    let folder: TemporaryFolder
    let port = FreePort.pick()

    /// - Parameter serverNames: of the server's certificate; `nil` has the usual ones of this machine.
    init(serverNames: [String]? = nil) throws {
        folder = TemporaryFolder()
        var request = Credentials.Request()
        if let serverNames { request.serverNames = serverNames }
        try Credentials.make(request).write(to: folder.path)
    }

    /// For redis-server. It asks for a client's certificate.
    var options: [String] { ["--tls-port", String(port)] + files }

    private var files: [String] {
        [
            "--tls-cert-file", folder.file("server.pem"), "--tls-key-file", folder.file("server-key.pem"), "--tls-ca-cert-file",
            folder.file("ca.pem"), "--tls-client-cert-file", folder.file("client.pem"), "--tls-client-key-file",
            folder.file("client-key.pem"),
        ]
    }

    /// For a node of a cluster or a Sentinel, which speaks TLS to its peers too, at a port of its own.
    func options(port: Int, for peers: String) -> [String] { ["--tls-port", String(port), "--\(peers)", "yes"] + files }

    /// For the settings, as raw JSON by key.
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
