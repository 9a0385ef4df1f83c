import RedisQueue

/// The keys that say where Redis is and how to get in.
extension SettingsReader {
    mutating func redis(_ top: SettingsScope) -> Settings.Redis {
        if top.present.contains("redis_username"), top.secret("redis_password") == nil,
            !top.present.contains("redis_password"), !top.present.contains("redis_password_file")
        {
            fault("redis_username", "is given without redis_password", "both, or the password alone, would be right")
        }
        if top.secret("redis_password")?.text.isEmpty == true {
            fault("redis_password", "is an empty string", "leave it out where Redis asks for none")
        }
        checkKeys(top)
        let server = redisServer(top)
        return Settings.Redis(
            server: server, tls: redisTLS(top, server), database: top.integer("redis_db"), username: top.text("redis_username"),
            password: top.secret("redis_password"),
            delivery: top.text("redis_delivery") == "at_most_once" ? .atMostOnce : .atLeastOnce,
            lease: top.seconds("redis_lease"), resultsKey: top.text("redis_results_key"),
            resultsMax: top.integer("redis_results_max"), deadLetterMax: top.integer("redis_dead_letter_max"))
    }

    /// No key may serve two ends: the queue would stand still, or eat its own records.
    mutating func checkKeys(_ top: SettingsScope) {
        let lists = top.names("redis_queue_key").map(Keys.init)
        let results = top.text("redis_results_key")
        for (index, keys) in lists.enumerated() {
            for other in lists where other.owns(keys.list) {
                fault(
                    "redis_queue_key", "has \"\(keys.list)\", a key that gaplessd keeps beside the list \"\(other.list)\"",
                    "a list of another name would be right")
            }
            if let twin = lists[..<index].first(where: keys.areBeside) {
                fault(
                    "redis_queue_key", "has \"\(twin.list)\" and \"\(keys.list)\", which would have the same keys beside them",
                    "lists whose names differ in more than {} would be right")
            }
        }
        guard let results else { return }
        if lists.contains(where: { $0.list == results }) {
            fault("redis_results_key", "is \"\(results)\", as a list of redis_queue_key is", "a key of its own would be right")
        }
        if let keys = lists.first(where: { $0.owns(results) }) {
            fault(
                "redis_results_key", "is \"\(results)\", a key that gaplessd keeps beside the list \"\(keys.list)\"",
                "a key of its own would be right")
        }
    }

    /// One way to say where Redis is, not two that may differ.
    private mutating func redisServer(_ top: SettingsScope) -> QueueSettings.Server {
        let ways = [
            ["redis_sentinels", "redis_sentinel_master"], ["redis_netaddress"], ["redis_socket_path"],
            ["redis_host", "redis_port"],
        ].compactMap { $0.first(where: top.present.contains) }
        if let first = ways.first, ways.count > 1 {
            let others = ways.dropFirst().joined(separator: " and ")
            fault(first, "is given beside \(others)", "one way to say where Redis is would be right")
        }
        if let server = sentinels(top) { return server }
        if let address = top.text("redis_netaddress"), let server = QueueSettings.Server(netAddress: address) {
            guard case .unix(let path) = server else { return server }
            return unixServer(path, "redis_netaddress")
        }
        if let path = top.text("redis_socket_path") { return unixServer(path, "redis_socket_path") }
        return .tcp(host: top.text("redis_host")?.bareHost ?? "", port: top.integer("redis_port"))
    }

    private mutating func sentinels(_ top: SettingsScope) -> QueueSettings.Server? {
        let (isListed, isNamed) = (top.present.contains("redis_sentinels"), top.present.contains("redis_sentinel_master"))
        if isListed && !isNamed {
            fault(
                "redis_sentinels", "is given without redis_sentinel_master",
                "the name that Sentinel knows the master by would be right beside it")
        }
        if isNamed && !isListed {
            fault(
                "redis_sentinel_master", "is given without redis_sentinels", "an array of \"host:port\" would be right beside it")
        }
        let addresses = top.names("redis_sentinels").compactMap(HostAndPort.init)
        guard !addresses.isEmpty, let master = top.text("redis_sentinel_master") else { return nil }
        return .sentinels(addresses.map { .tcp(host: $0.host, port: $0.port) }, master: master)
    }

    private mutating func unixServer(_ path: String, _ key: String) -> QueueSettings.Server {
        // What sockaddr_un holds (unix(7)): 108 bytes with the NUL at the end.
        if path.utf8.count > 107 {
            fault(key, "names a socket whose path has \(path.utf8.count) bytes", "at most 107 would be right")
        }
        return .unix(path: path)
    }

    /// `nil` without TLS. The files are read here, so that every fault is told at once; connections read them anew.
    private mutating func redisTLS(_ top: SettingsScope, _ server: QueueSettings.Server) -> Settings.Redis.TLS? {
        let files = ["redis_ca_path", "redis_cert_path", "redis_key_path"].filter(top.present.contains)
        guard top.flag("redis_tls") else {
            // A faulty redis_tls has been told already.
            if !top.present.contains("redis_tls") || top.values["redis_tls"] != nil {
                for key in files { fault(key, "is given without redis_tls", "\"redis_tls\": true would be right beside it") }
            }
            return nil
        }
        if case .unix = server {
            fault(
                "redis_tls", "is given with a Unix socket, where Redis speaks no TLS",
                "a host and a port, or no redis_tls, would be right")
        }
        if files.contains("redis_key_path"), !files.contains("redis_cert_path") {
            fault(
                "redis_key_path", "is given without redis_cert_path",
                "both, or one PEM file with both as redis_cert_path, would be right")
        }
        let tls = Settings.Redis.TLS(
            rootsPath: top.text("redis_ca_path"), certificatePath: top.text("redis_cert_path"),
            keyPath: top.text("redis_key_path"))
        var loader = RedisTLSLoader()
        _ = loader.context(tls)
        for each in loader.faults { fault(each.key, each.problem, each.remedy) }
        return tls
    }
}
