import JSONBytes
import Platform
import PushPool
import RedisQueue

/// Turns a settings file into a `Configuration` without the content of its credentials, and collects every fault on the way.
struct SettingsReader {
    let file: SettingsFile
    var findings = SettingsFindings()
    private var apps: [Settings.App] = []
    private var files: Set<String>
    private var drafts: [SettingsDraft] = []

    init(file: SettingsFile) {
        self.file = file
        files = [file.path]
    }

    mutating func read(_ members: [JSONMember]) throws(SettingsErrors) -> Configuration {
        var top = draft(members, prefix: "", isApp: false, from: SettingsDraft())
        applyRedisURL(&top)
        drafts = [top]
        var settings = top.settings
        settings.limits.pushesPerSecond = top.app.maxRate
        readApps(top)
        for key in SettingsTable.keys where key.isRequired && key.scope == .daemon && top.given[key.name] == nil {
            findings.fault(key.name, "required key is missing", expected: key.traits.expected)
        }
        let folder = readFolder(top)
        checkGovernor(top)
        checkMetrics(top.settings)
        checkRelay(top.settings.relay)
        settings.redis.server = redisServer(top)
        let tls = redisTLS(top, settings.redis.server)
        settings.redis.tls = tls
        let redisFiles = tls.map { $0.read(&findings) }
        settings.filter = filter(top)
        (settings.retryRules, settings.matches) = (retryRules(top), filterMatches(top))
        settings.apps = apps
        guard findings.faults.isEmpty else {
            throw SettingsErrors(
                file: file.path, faults: findings.faults, apps: apps,
                certificates: [redisFiles?.certificate].compactMap(\.self), files: files)
        }
        return Configuration(
            file: file.path, settings: settings, redisTLS: redisFiles?.context, redisCertificate: redisFiles?.certificate,
            files: files, drafts: drafts, appFolder: folder, warnings: findings.warnings)
    }

    /// Reads the members of an object over the values that it starts with.
    ///
    /// - Parameter isApp: whether the object is an app, in `apps` or in a file of its own.
    private mutating func draft(
        _ members: [JSONMember], prefix: String, isApp: Bool, from start: SettingsDraft
    ) -> SettingsDraft {
        var draft = start
        draft.app.keyPrefix = prefix
        var seen: Set<String> = []
        for member in members where !member.isComment {
            guard seen.insert(member.key).inserted else {
                findings.fault(prefix + member.key.orQuotes, "duplicate key", expected: "each key at most once")
                continue
            }
            guard let key = SettingsTable.byAnyName[member.key], !isApp || key.scope != .daemon else {
                reportUnknown(member.key, prefix, isApp: isApp)
                continue
            }
            draft.given[key.name] = member.key
            draft.own.insert(key.name)
            read(member, of: key, into: &draft)
        }
        for key in SettingsTable.keys {
            let given = key.names.filter(seen.contains)
            for other in given.dropFirst() {
                findings.fault(prefix + other, "conflicts with \(given[0])", expected: "only one of them")
            }
        }
        if let server = draft.server, let gateway = server.retiredGateway, let name = server.name,
            draft.own.contains("apns_server")
        {
            findings.warn(
                prefix + "apns_server", "Apple has shut down the binary gateway \(gateway)",
                "using \(server.address.text); set \"\(name)\" instead")
        }
        return draft
    }

    private mutating func read(_ member: JSONMember, of key: Setting, into draft: inout SettingsDraft) {
        let place = draft.app.keyPrefix + member.key
        let isInFile = member.key == key.fileName
        let path = isInFile || key.traits.namesFile ? member.value.stringValue.flatMap { try? file.resolve($0) } : nil
        if let path {
            files.insert(path)
            if key.scope != .daemon { draft.app.files.insert(path) }
        }
        var remedy: String?
        do {
            var value = member.value
            if member.key == key.name {
                remedy = warnOfReference(value, key, place)
            } else {
                var own = SettingsFindings()
                own.file = findings.file
                let secret = isInFile ? secret(value, key, place, &own) : variable(value, key, place, &own)
                // A secret that cannot be read concerns its app alone.
                if key.scope == .eachApp {
                    draft.app.faults += own.faults
                } else {
                    for fault in own.faults { findings.fault(fault) }
                }
                guard let text = secret else {
                    if key.scope != .eachApp || own.faults.isEmpty { draft.invalid.insert(key.name) }
                    return
                }
                value = .string(text)
            }
            try key.read(value, file, &draft)
        } catch {
            draft.invalid.insert(key.name)
            let expected = error.expected ?? key.traits.expected
            let secretFile = isInFile ? path.map { "\($0): " } ?? "" : ""
            findings.fault(
                place, secretFile + error.text, expected: remedy.map { "\(expected), or \($0)" } ?? expected)
        }
    }

    /// Warns about `"${NAME}"` where environment variables are not expanded. Returns the setting to use instead, for a secret.
    private mutating func warnOfReference(_ value: JSONValue, _ key: Setting, _ place: String) -> String? {
        guard let text = value.stringValue, let name = text.referencedVariable else { return nil }
        if key.traits.isPath { return nil }
        let remedy = key.variableName.map { "\"\($0)\": \"\(name)\"" }
        findings.warn(
            place, "\"\(text)\" is taken literally",
            remedy.map { "set \($0) to read the environment variable" } ?? "environment variables are expanded in paths only")
        return remedy
    }

    /// Reads a secret from its file; returns `nil` after a fault.
    ///
    /// - Parameter found: receives a fault of the content.
    private mutating func secret(
        _ value: JSONValue, _ key: Setting, _ place: String, _ found: inout SettingsFindings
    ) -> String? {
        guard let path = read(value, as: .path, at: place) else { return nil }
        let isPath = value.stringValue.map { isSurelyPath($0, path) } ?? false
        let shown = isPath ? path : "the file (hidden: it may be the secret itself)"
        guard var bytes = found.read(path, at: place, atMost: 64 << 10, shown: shown) else { return nil }
        while let last = bytes.last, " \t\r\n".utf8.contains(last) { bytes.removeLast() }
        guard let text = String(validating: bytes, as: UTF8.self), key.traits.mayBeEmpty || !text.isEmpty else {
            found.fault(place, "\(shown) contains no text", expected: "a file that contains only the value of \(key.name)")
            return nil
        }
        return text
    }

    /// Whether the name of a secret's file cannot be the secret itself: a file or a folder of it exists, or each part of an
    /// absolute path is in lower case.
    private func isSurelyPath(_ text: String, _ path: String) -> Bool {
        if ["./", "../", "${"].contains(where: text.hasPrefix) || FileStamp(path: path) != nil { return true }
        guard text.hasPrefix("/") else { return false }
        let parts = text.split(separator: "/")
        guard parts.count > 1 else { return false }
        let folder = "/" + parts.dropLast().joined(separator: "/")
        return FileStamp(path: folder) != nil
            || parts.allSatisfy { part in
                part.utf8.allSatisfy { $0.isLowercase || $0.isDigit || "._-".utf8.contains($0) }
            }
    }

    /// Reads a value that is none of the table; returns `nil` after a fault.
    mutating func read<Value>(_ value: JSONValue, as type: SettingType<Value>, at place: String) -> Value? {
        do {
            return try type.read(value, file)
        } catch {
            findings.fault(place, error.text, expected: error.expected ?? type.traits.expected)
            return nil
        }
    }

    /// Reads a secret from its environment variable, as `secret` does from a file.
    private mutating func variable(
        _ value: JSONValue, _ key: Setting, _ place: String, _ found: inout SettingsFindings
    ) -> String? {
        let expected = "the name of an environment variable that contains the value of \(key.name)"
        guard let name = value.stringValue.map({ $0.referencedVariable ?? $0 }), name.isVariableName else {
            findings.fault(place, "the value is not a name (hidden: it may be the secret itself)", expected: expected)
            return nil
        }
        var text = file.environment(name)
        while let last = text?.unicodeScalars.last, " \t\r\n".unicodeScalars.contains(last) { text?.unicodeScalars.removeLast() }
        // A name in capitals with an underscore is one; any other may be the secret itself.
        let isSurelyName = text != nil || name.contains("_") && name == name.uppercased()
        let shown = "the environment variable \(isSurelyName ? name : "(hidden: it may be the secret itself)")"
        guard let text else {
            found.fault(place, "\(shown) is not set", expected: expected)
            return nil
        }
        guard key.traits.mayBeEmpty || !text.isEmpty else {
            found.fault(place, "\(shown) is empty", expected: expected)
            return nil
        }
        return text
    }

    private mutating func reportUnknown(_ name: String, _ prefix: String, isApp: Bool) {
        if SettingsTable.byAnyName[name] != nil {
            return findings.fault(prefix + name, "not a key of an app", expected: "this key at the top level")
        }
        let known = SettingsTable.keys.filter { !isApp || $0.scope != .daemon }
        let isKeyFile = name.utf8.count >= 40 && name.looksLikeKey || name.contains("PRIVATE KEY")
        let shown = isKeyFile ? "(hidden)" : prefix + name.orQuotes
        guard let nearest = NearestKey(to: name, among: known) else { return }
        findings.fault(
            shown, "unknown key",
            expected: nearest.isLikely
                ? "a known key: did you mean \(nearest.text)?"
                : "a known key (the nearest is \(nearest.text)), or a comment that starts with _ or //")
    }
}

// MARK: - Apps

extension SettingsReader {
    /// Adds the top level, if it is an app, and each of `apps`.
    private mutating func readApps(_ top: SettingsDraft) {
        let named = namedApps(top)
        // A faulty object in `apps` is an app, too: the top level then needs no credential.
        let hasApps = top.apps.map { $0.contains { !$0.isComment } } ?? (top.given["apps"] != nil) || top.given["apps_dir"] != nil
        if !hasApps || top.firstGiven(Self.credentialKinds.flatMap { $0.required + $0.optional }) != nil {
            readApp(top)
        } else if top.given["apns_topic"] != nil {
            findings.fault(
                "apns_topic", "requires a credential", expected: "a credential at the top level, or a topic in each of apps")
        }
        for app in named { readApp(app) }
        drafts += named
    }

    private mutating func namedApps(_ top: SettingsDraft) -> [SettingsDraft] {
        let start = top.heritage
        var named: [SettingsDraft] = []
        for app in top.apps ?? [] where !app.isComment {
            let place = "apps.\(app.key.orQuotes)"
            guard case .object(let members) = app.value else {
                findings.fault(
                    place, "invalid value \(app.value.shown)", expected: "an object, such as {\"apns_server\": \"sandbox\", …}")
                continue
            }
            if app.key.isEmpty { findings.fault(place, "the name is empty", expected: "the name that jobs give as \"app\"") }
            if named.contains(where: { $0.app.name == app.key }) {
                findings.fault(place, "duplicate app", expected: "a different name for each app")
            } else {
                var draft = draft(members, prefix: "\(place).", isApp: true, from: start)
                draft.app.name = app.key
                named.append(draft)
            }
        }
        return named
    }

    /// Reads the files of `apps_dir`. A fault in one of them holds its app alone.
    private mutating func readFolder(_ top: SettingsDraft) -> AppFolder? {
        guard let path = top.settings.appsFolder else { return nil }
        let folder: AppFolder
        do {
            folder = try AppFolder(path)
        } catch {
            findings.fault("apps_dir", "\(path) cannot be read: \(error)", expected: "a folder that this user can read")
            return nil
        }
        var names = Set(apps.map(\.name))
        for name in folder.apps {
            let read = Self.readApp(name, in: folder, of: file, over: top)
            if names.insert(name).inserted {
                apps.append(read.app)
                if let draft = read.draft { drafts.append(draft) }
            } else {
                findings.warn("apps_dir", "\(folder.file(of: name)) is ignored", "apps has an app of this name as well")
            }
            files.formUnion(read.app.files)
            for warning in read.warnings { findings.warn(warning) }
        }
        if apps.isEmpty { findings.warn("apps_dir", "\(path) has no file NAME.json", "no job is claimed before it has one") }
        return folder
    }

    /// One file of `apps_dir`.
    struct AppFile {
        /// Its faults are those of the file.
        var app: Settings.App
        /// `nil` if the file is no JSON object.
        var draft: SettingsDraft?
        var warnings: [SettingsError] = []
        /// Whether the JSON ends too early: the file may be being written.
        var isIncomplete = false
    }

    /// Reads one file of `apps_dir`.
    ///
    /// - Parameters:
    ///   - file: the settings file, to which paths are relative.
    ///   - top: the keys of the top level.
    static func readApp(_ name: String, in folder: AppFolder, of file: SettingsFile, over top: SettingsDraft) -> AppFile {
        let path = folder.file(of: name)
        var reader = SettingsReader(file: file)
        reader.findings.file = path
        let content = SettingsFile(path: path, environment: file.environment)
        let members: [JSONMember]
        let digest: Int
        do {
            (members, digest) = try content.membersAndDigest()
        } catch {
            var app = Settings.App()
            (app.name, app.file, app.fileDigest) = (name, path, error.digest)
            app.faults = error.faults.map { SettingsError(key: "", problem: $0.problem, remedy: $0.remedy, file: path) }
            return AppFile(app: app, isIncomplete: error.isIncomplete)
        }
        var draft = reader.draft(members, prefix: "", isApp: true, from: top.heritage)
        (draft.app.name, draft.app.file, draft.app.fileDigest) = (name, path, digest)
        reader.readApp(draft)
        var app = reader.apps.removeLast()
        app.faults += reader.findings.faults
        return AppFile(app: app, draft: draft, warnings: reader.findings.warnings)
    }

    private mutating func readApp(_ draft: SettingsDraft) {
        var app = draft.app
        // That of the top level is the limit of all apps.
        if app.name == nil { app.maxRate = 0 }
        // Without a server there are no settings, but the files are checked.
        if let address = draft.server?.address {
            (app.pool.host, app.pool.port) = (address.host, address.port)
            app.management = draft.management ?? APNSServer.management(of: address)
        }
        if draft.given["apns_server"] == nil {
            let expected = SettingType.apnsServer.traits.expected
            findings.fault(app.keyPrefix + "apns_server", "required key is missing", expected: expected)
        }
        checkBackoff(draft)
        app.source = source(draft)
        switch draft.poolSize {
        case .fixed(let count): (app.pool.sessions, app.pool.mostSessions) = (count, draft.mostSessions ?? count)
        case .automatic:
            app.pool.isAutomatic = true
            (app.pool.sessions, app.pool.mostSessions) = (1, draft.mostSessions ?? PoolSettings.mostAutomaticSessions)
        }
        let (log, hasResults) = (draft.settings.log, draft.settings.redis.resultsKey != nil)
        app.pool.collectsAPNSIDs = hasResults || log.successes > 0 && log.format == .json
        app.pool.recordsTimes = hasResults || draft.settings.metricsListen != nil
        if draft.own.contains(app.rootsKey) { (app.rootsKey, app.ownsRoots) = (app.keyPrefix + app.rootsKey, true) }
        apps.append(app)
    }

    private mutating func checkGovernor(_ top: SettingsDraft) {
        guard let most = top.mostSessions, case .fixed(let least) = top.poolSize else { return }
        if most < least {
            findings.fault("pool_max_size", "\(most) is below pool_size, which is \(least)", expected: "\(least) or more")
        }
        if most > least, top.app.pool.scale == .constant {
            findings.warn("pool_scale", "\"constant\" disables pool_max_size", "\"incremental:1\" would use it")
        }
    }

    private mutating func checkMetrics(_ settings: Settings) {
        guard let address = settings.metricsListen else {
            if !settings.metricsHosts.isEmpty {
                findings.warn("metrics_hosts", "has no effect without metrics_listen", "set metrics_listen")
            }
            return
        }
        if address.isWildcard {
            findings.warn(
                "metrics_listen", "\(address.text) is every address of this machine",
                "all hosts that reach it can read the figures; use 127.0.0.1 or one address of an internal network")
        }
    }

    private mutating func checkRelay(_ relay: Settings.Relay) {
        guard let url = relay.url, !url.isSecure else { return }
        let host = url.address.host
        if host == "localhost" || IPAddress(host)?.isLoopback == true { return }
        findings.warn("relay_url", "\(url.shown) is not encrypted", "results contain device tokens; use https")
    }

    private mutating func checkBackoff(_ draft: SettingsDraft) {
        let (first, most) = (draft.app.pool.dialBackoff.first, draft.app.pool.dialBackoff.most)
        // An app that sets neither inherits the fault, which is reported at the top level.
        let key = ["apns_dial_backoff_min", "apns_dial_backoff_max"].first(where: draft.own.contains)
        guard first > most, let key else { return }
        findings.fault(
            draft.app.keyPrefix + key,
            "apns_dial_backoff_min \(first.inSeconds.short) is above apns_dial_backoff_max \(most.inSeconds.short)",
            expected: "a minimum up to the maximum")
    }

    private mutating func source(_ draft: SettingsDraft) -> Settings.CredentialSource? {
        let kinds = Self.credentialKinds.filter { draft.firstGiven($0.required + $0.optional) != nil }
        let choice = "one kind of credential: \(Self.credentialKinds.map(\.words).joined(separator: ", or "))"
        guard let kind = kinds.first else {
            findings.fault(draft.app.keyPrefix + "apns_auth_key_path", "no credential is given", expected: choice)
            return nil
        }
        if kinds.count > 1 {
            let given = kinds.compactMap { draft.firstGiven($0.required + $0.optional) }
            findings.fault(
                draft.app.keyPrefix + given[0], "conflicts with \(given.dropFirst().joined(separator: " and "))", expected: choice
            )
            return nil
        }
        let missing = kind.required.filter { draft.given[$0] == nil }
        for key in missing { findings.fault(draft.app.keyPrefix + key, "required key is missing", expected: kind.words) }
        guard missing.isEmpty, draft.invalid.isDisjoint(with: kind.required + kind.optional) else { return nil }
        return draft.app.keys.source
    }

    /// The kinds of credentials. Any key of a kind selects it.
    private static let credentialKinds: [(required: [String], optional: [String], words: String)] = [
        (
            required: ["apns_auth_key_path", "apns_auth_key_id", "apns_team_id"], optional: [],
            words: "apns_auth_key_path with apns_auth_key_id and apns_team_id"
        ),
        (
            required: ["apns_cert_path"], optional: ["apns_key_path", "apns_key_password"],
            words: "apns_cert_path with apns_key_path"
        ),
        (required: ["apns_p12_path"], optional: ["apns_p12_password"], words: "apns_p12_path"),
    ]
}

extension JSONMember {
    /// Whether the key starts with `_` or `//`, or is `$schema`.
    var isComment: Bool { key.hasPrefix("_") || key.hasPrefix("//") || key == "$schema" }
}

/// Checks of the keys for Redis and for the word filter.
extension SettingsReader {
    /// Takes the parts of `redis_url` over. A part that another key sets as well is a fault.
    private mutating func applyRedisURL(_ top: inout SettingsDraft) {
        guard let url = top.redis.url, let key = top.given["redis_url"] else { return }
        func conflict(_ names: [String], if isGiven: Bool) {
            guard isGiven, let other = top.firstGiven(names) else { return }
            findings.fault(key, "conflicts with \(other)", expected: "each part of the address only once")
        }
        conflict(["redis_db"], if: true)
        conflict(["redis_username", "redis_password"], if: url.password != nil)
        conflict(["redis_tls"], if: url.usesTLS && !top.redis.usesTLS)
        if let database = url.database { top.settings.redis.database = database }
        if let password = url.password { (top.settings.redis.username, top.settings.redis.password) = (url.username, password) }
        top.redis.usesTLS = top.redis.usesTLS || url.usesTLS
    }

    /// Only one way to locate Redis is allowed. A socket is used instead of a host and a port.
    mutating func redisServer(_ top: SettingsDraft) -> QueueSettings.Server {
        checkLogin(top)
        checkKeys(top)
        let ways = [
            ["redis_sentinels", "redis_sentinel_master"], ["redis_url"], ["redis_netaddress"], ["redis_socket_path"],
            ["redis_host", "redis_port"],
        ].compactMap(top.firstGiven)
        if ways.count > 1, ways[0] != "redis_socket_path" {
            let others = ways.dropFirst().joined(separator: " and ")
            findings.fault(ways[0], "conflicts with \(others)", expected: "only one way to locate Redis")
        }
        if let server = sentinels(top) { return server }
        let redis = top.redis
        if let server = redis.address {
            if case .unix(let path) = server { checkSocket(path, redis.url == nil ? "redis_netaddress" : "redis_url") }
            return server
        }
        guard let path = redis.socketPath else { return .tcp(host: redis.host, port: redis.port) }
        checkSocket(path, "redis_socket_path")
        return .unix(path: path)
    }

    private mutating func require(_ other: String, for key: String, _ top: SettingsDraft, expected: String) {
        guard top.given[key] != nil, top.given[other] == nil else { return }
        findings.fault(key, "requires \(other)", expected: expected)
    }

    private mutating func checkLogin(_ top: SettingsDraft) {
        require("redis_password", for: "redis_username", top, expected: "both keys, or only redis_password")
        require(
            "redis_sentinel_password", for: "redis_sentinel_username", top, expected: "both keys, or only redis_sentinel_password"
        )
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
        require(
            "redis_sentinel_master", for: "redis_sentinels", top, expected: "the name of the master as redis_sentinel_master")
        require("redis_sentinels", for: "redis_sentinel_master", top, expected: "the addresses of Sentinels as redis_sentinels")
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
        let keys = ["redis_ca_path", "redis_cert_path", "redis_key_path", "redis_tls_name"].filter { top.given[$0] != nil }
        guard top.redis.usesTLS else {
            guard top.invalid.isDisjoint(with: ["redis_tls", "redis_url"]) else { return nil }
            for key in keys { findings.fault(key, "requires redis_tls", expected: "\"redis_tls\": true") }
            return nil
        }
        if case .unix = server {
            findings.fault("redis_tls", "Redis offers no TLS on a Unix socket", expected: "a host and a port, or no redis_tls")
        }
        require(
            "redis_cert_path", for: "redis_key_path", top, expected: "both keys, or one PEM file with both as redis_cert_path")
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
