import RedisQueue

/// Checks of the keys for Redis and for the word filter.
extension SettingsReader {
    /// Only one way to locate Redis is allowed. A socket is used instead of a host and a port.
    mutating func redisServer(_ top: SettingsDraft) -> QueueSettings.Server {
        checkLogin(top)
        checkKeys(top)
        let ways = [
            ["redis_sentinels", "redis_sentinel_master"], ["redis_netaddress"], ["redis_socket_path"],
            ["redis_host", "redis_port"],
        ].compactMap(top.firstGiven)
        if ways.count > 1, ways[0] != "redis_socket_path" {
            let others = ways.dropFirst().joined(separator: " and ")
            findings.fault(ways[0], "conflicts with \(others)", expected: "only one way to locate Redis")
        }
        if let server = sentinels(top) { return server }
        let redis = top.redis
        if let server = redis.netAddress {
            if case .unix(let path) = server { checkSocket(path, "redis_netaddress") }
            return server
        }
        guard let path = redis.socketPath else { return .tcp(host: redis.host, port: redis.port) }
        checkSocket(path, "redis_socket_path")
        return .unix(path: path)
    }

    private mutating func checkLogin(_ top: SettingsDraft) {
        if top.given["redis_username"] != nil, top.given["redis_password"] == nil {
            findings.fault("redis_username", "requires redis_password", expected: "both keys, or only redis_password")
        }
        if top.given["redis_sentinel_username"] != nil, top.given["redis_sentinel_password"] == nil {
            findings.fault(
                "redis_sentinel_username", "requires redis_sentinel_password",
                expected: "both keys, or only redis_sentinel_password")
        }
        if let key = top.firstGiven(["redis_sentinel_password", "redis_sentinel_username"]), top.given["redis_sentinels"] == nil {
            findings.fault(key, "requires redis_sentinels", expected: "the addresses of Sentinels as redis_sentinels")
        }
    }

    /// Each key of Redis has one purpose. Otherwise the queue would stop, or consume its own records.
    private mutating func checkKeys(_ top: SettingsDraft) {
        let lists = top.settings.lists.map(Keys.init)
        func owned(_ key: String, _ list: String) -> String { "\"\(key)\" is a key that gaplessd keeps for the list \"\(list)\"" }
        for (index, keys) in lists.enumerated() {
            for other in lists where other.owns(keys.list) {
                findings.fault("redis_queue_key", owned(keys.list, other.list), expected: "a list with another name")
            }
            if let twin = lists[..<index].first(where: keys.areBeside) {
                findings.fault(
                    "redis_queue_key", "\"\(twin.list)\" and \"\(keys.list)\" would share the keys of gaplessd",
                    expected: "lists whose names differ in more than {}")
            }
        }
        guard let results = top.settings.redis.resultsKey else { return }
        let expected = "a key that nothing else uses"
        if lists.contains(where: { $0.list == results }) {
            findings.fault("redis_results_key", "\"\(results)\" is a list of redis_queue_key", expected: expected)
        }
        if let keys = lists.first(where: { $0.owns(results) }) {
            findings.fault("redis_results_key", owned(results, keys.list), expected: expected)
        }
    }

    private mutating func sentinels(_ top: SettingsDraft) -> QueueSettings.Server? {
        switch (top.given["redis_sentinels"] != nil, top.given["redis_sentinel_master"] != nil) {
        case (true, false):
            findings.fault(
                "redis_sentinels", "requires redis_sentinel_master", expected: "the name of the master as redis_sentinel_master")
        case (false, true):
            findings.fault(
                "redis_sentinel_master", "requires redis_sentinels", expected: "the addresses of Sentinels as redis_sentinels")
        default: break
        }
        guard let addresses = top.redis.sentinels, let master = top.redis.master else { return nil }
        return .sentinels(addresses.map { .tcp(host: $0.host, port: $0.port) }, master: master)
    }

    private mutating func checkSocket(_ path: String, _ key: String) {
        // sockaddr_un holds 108 bytes with the NUL at the end (unix(7)).
        guard path.utf8.count > 107 else { return }
        findings.fault(key, "the path of the socket has \(path.utf8.count) bytes", expected: "at most 107 bytes")
    }

    /// The files for TLS; `nil` without TLS.
    mutating func redisTLS(_ top: SettingsDraft, _ server: QueueSettings.Server) -> RedisTLS? {
        let files = ["redis_ca_path", "redis_cert_path", "redis_key_path"].filter { top.given[$0] != nil }
        guard top.redis.usesTLS else {
            guard !top.invalid.contains("redis_tls") else { return nil }
            for key in files { findings.fault(key, "requires redis_tls", expected: "\"redis_tls\": true") }
            return nil
        }
        if case .unix = server {
            findings.fault("redis_tls", "Redis offers no TLS on a Unix socket", expected: "a host and a port, or no redis_tls")
        }
        if files.contains("redis_key_path"), !files.contains("redis_cert_path") {
            findings.fault(
                "redis_key_path", "requires redis_cert_path", expected: "both keys, or one PEM file with both as redis_cert_path")
        }
        return top.redis.tls
    }

    /// `nil` without words.
    mutating func filter(_ top: SettingsDraft) -> Settings.Filter? {
        var words = top.filter.words ?? []
        for word in words where FilterWord(word) == nil {
            findings.fault(
                "filter_words", "\"\(word)\" matches nothing", expected: "a word, or the start of words such as \"word*\"")
        }
        if let path = top.filter.path { words += filterWords(path) }
        if !words.isEmpty { return Settings.Filter(words: words, action: top.filter.action) }
        if top.firstGiven(["filter_words", "filter_words_path"]) == nil, top.filter.action == .mask {
            findings.warn("filter_action", "has no effect without words", "set filter_words or filter_words_path")
        }
        return nil
    }

    private mutating func filterWords(_ path: String) -> [String] {
        let (key, expected) = ("filter_words_path", "a UTF-8 file with one word per line")
        guard let bytes = findings.read(path, at: key, atMost: SettingsFile.mostBytes, expected: expected) else { return [] }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            findings.fault(key, "\(path) is not UTF-8", expected: expected)
            return []
        }
        let before = findings.faults.count
        var words: [String] = []
        for (index, line) in text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let word = String(line.trimmed)
            if word.isEmpty || word.hasPrefix("#") { continue }
            words.append(word)
            guard FilterWord(word) == nil else { continue }
            findings.fault(key, "\(path), line \(index + 1): \"\(word)\" matches nothing", expected: "a word")
        }
        if words.isEmpty, findings.faults.count == before {
            findings.warn(key, "\(path) contains no words", "this file filters nothing")
        }
        return words
    }
}

extension Substring.UnicodeScalarView {
    /// The line without white space and without a byte order mark.
    fileprivate var trimmed: Substring.UnicodeScalarView {
        func isOutside(_ scalar: Unicode.Scalar) -> Bool { scalar.properties.isWhitespace || scalar == "\u{FEFF}" }
        guard let last = lastIndex(where: { !isOutside($0) }) else { return self[startIndex..<startIndex] }
        return self[...last].drop(while: isOutside)
    }
}
