import JSONBytes
import PushPool

/// The top level and `apps`, each with its server, its credential and its topic.
extension SettingsReader {
    mutating func apps(top: SettingsScope) -> [Settings.App] {
        var apps: [Settings.App] = []
        let named = namedApps(top: top)
        // Where each of apps is faulty, that has been told: the top level need be none.
        if !top.hasApps || top.mentionsCredential {
            apps += app(name: nil, top, top: top)
        } else if top.present.contains("apns_topic") {
            fault(
                "apns_topic", "is given without a credential",
                "a credential beside it, or a topic in each of apps, would be right")
        }
        for (name, scope) in named { apps += app(name: name, scope, top: top) }
        return apps
    }

    private mutating func namedApps(top: SettingsScope) -> [(name: String, scope: SettingsScope)] {
        guard case .object(let apps) = top.values["apps"] else { return [] }
        var named: [(name: String, scope: SettingsScope)] = []
        for app in apps where !app.isComment {
            guard case .object(let members) = app.value else {
                let right = "an object, such as {\"apns_server\": \"sandbox\", …}, would be right"
                fault("apps.\(app.key.orQuotes)", "is \(app.value.shown)", right)
                continue
            }
            if app.key.isEmpty {
                fault("apps.\"\"", "is an app without a name", "a name that jobs give as \"app\" would be right")
            }
            if named.contains(where: { $0.name == app.key }) {
                fault("apps.\(app.key.orQuotes)", "is there more than once", "a name of its own for each app would be right")
            } else {
                named.append((app.key, scope(members, prefix: "apps.\(app.key.orQuotes).")))
            }
        }
        return named
    }

    /// Nothing where the credential is not all there.
    private mutating func app(name: String?, _ own: SettingsScope, top: SettingsScope) -> [Settings.App] {
        let scope = name == nil ? own : own.inheriting(from: top)
        if !scope.present.contains("apns_server") {
            fault(scope.prefix + "apns_server", "is missing", SettingsKey.Kind.apnsServer.words)
        }
        let backoff = backoff(scope, own: own)
        let credential = credential(scope)
        guard let credential else {
            leave(scope.looseFiles(of: name, own: own))
            return []
        }
        // Without a server there are no settings, but there are files to look at.
        let address = scope.text("apns_server").flatMap(APNSServer.init)?.address ?? HostAndPort("", 0)
        var pool = PoolSettings(
            host: address.host, port: address.port, extraRootsPath: scope.text("apns_ca_path"),
            proxy: scope.text("apns_proxy").flatMap { HTTPProxy(url: $0) }, sessions: top.integer("pool_size"),
            dialTimeout: scope.seconds("apns_dial_timeout"), dialBackoff: backoff,
            requestTimeout: scope.seconds("apns_request_timeout"), keepAlive: scope.seconds("apns_keepalive"),
            maxConcurrentStreams: scope.integer("apns_max_concurrent_streams"),
            collectsAPNSIDs: top.text("redis_results_key") != nil)
        govern(&pool, top)
        let rootsKey = own.place(of: "apns_ca_path")
        return [Settings.App(name: name, pool: pool, credential: credential, topic: scope.text("apns_topic"), rootsKey: rootsKey)]
    }

    /// The governor's part, the same for all apps.
    private func govern(_ pool: inout PoolSettings, _ top: SettingsScope) {
        if top.values["pool_max_size"] != nil { pool.mostSessions = top.integer("pool_max_size") }
        pool.scale = top.text("pool_scale").flatMap(PoolScale.init) ?? pool.scale
        pool.pollInterval = top.seconds("pool_poll_interval")
        pool.minSustain = top.seconds("pool_min_sustain")
        pool.settlePeriod = top.seconds("pool_settle_period")
    }

    /// What the keys of the governor must say together.
    mutating func checkGovernor(_ top: SettingsScope) {
        guard top.values["pool_max_size"] != nil else { return }
        let (least, most) = (top.integer("pool_size"), top.integer("pool_max_size"))
        if most < least {
            fault("pool_max_size", "is \(most), below pool_size, which is \(least)", "pool_size or more would be right")
        }
        if most > least, top.text("pool_scale") == "constant" {
            warn("pool_scale", "is \"constant\"", "pool_max_size says nothing then; \"incremental:1\" would use it")
        }
    }

    private mutating func backoff(_ scope: SettingsScope, own: SettingsScope) -> Backoff {
        let first = scope.fraction("apns_dial_backoff_min")
        let most = scope.fraction("apns_dial_backoff_max")
        let names = ["apns_dial_backoff_min", "apns_dial_backoff_max"]
        // Said where it was set: an app that sets neither inherits the fault with the values.
        if first > most, let key = names.first(where: own.present.contains) {
            fault(
                scope.prefix + key, "makes apns_dial_backoff_min \(first) and apns_dial_backoff_max \(most)",
                "a minimum not above the maximum would be right")
        }
        return Backoff(
            first: .seconds(first), most: .seconds(most), jitter: scope.fraction("apns_dial_backoff_jitter"))
    }

    private mutating func credential(_ scope: SettingsScope) -> Settings.CredentialSource? {
        let kinds = CredentialKind.allCases.filter { !scope.present.isDisjoint(with: $0.mentions) }
        guard let kind = kinds.first else {
            fault(scope.prefix + "apns_auth_key_path", "is missing, and so is every other credential", CredentialKind.choice)
            return nil
        }
        let mentions = kinds.compactMap { $0.mentions.first(where: scope.present.contains) }
        if kinds.count > 1 {
            fault(
                scope.prefix + mentions[0], "is given beside \(mentions.dropFirst().joined(separator: " and "))",
                CredentialKind.choice)
            return nil
        }
        let missing = kind.required.filter { !scope.present.contains($0) }
        for key in missing {
            fault(scope.prefix + key, "is missing", "\(kind.words) would be right")
        }
        let areRight = kind.mentions.filter(scope.present.contains).allSatisfy { scope.hasValue(at: $0) }
        guard missing.isEmpty, areRight else { return nil }
        return source(kind, scope)
    }

    private func source(_ kind: CredentialKind, _ scope: SettingsScope) -> Settings.CredentialSource? {
        switch kind {
        case .certificate:
            guard let path = scope.text("apns_cert_path") else { return nil }
            return .certificate(
                path: path, keyPath: scope.text("apns_key_path"), password: scope.secret("apns_key_password"))
        case .pkcs12:
            guard let path = scope.text("apns_p12_path") else { return nil }
            return .pkcs12(path: path, password: scope.secret("apns_p12_password"))
        case .signingKey:
            guard let path = scope.text("apns_auth_key_path"), let keyID = scope.text("apns_auth_key_id"),
                let teamID = scope.text("apns_team_id")
            else { return nil }
            return .signingKey(path: path, keyID: keyID, teamID: teamID)
        }
    }
}

/// The ways to prove who we are, as the settings name them.
private enum CredentialKind: CaseIterable {
    case signingKey, certificate, pkcs12

    var required: [String] {
        switch self {
        case .signingKey: ["apns_auth_key_path", "apns_auth_key_id", "apns_team_id"]
        case .certificate: ["apns_cert_path"]
        case .pkcs12: ["apns_p12_path"]
        }
    }

    /// Any of these says that this kind is meant.
    var mentions: [String] {
        switch self {
        case .signingKey: required
        case .certificate: required + ["apns_key_path", "apns_key_password", "apns_key_password_file"]
        case .pkcs12: required + ["apns_p12_password", "apns_p12_password_file"]
        }
    }

    static var choice: String { "one kind of credential would be right: \(allCases.map(\.words).joined(separator: ", or "))" }

    var words: String {
        switch self {
        case .signingKey: "apns_auth_key_path with apns_auth_key_id and apns_team_id"
        case .certificate: "apns_cert_path with apns_key_path"
        case .pkcs12: "apns_p12_path"
        }
    }
}

extension SettingsScope {
    /// Whether there is any app beside the top level, be it a faulty one.
    fileprivate var hasApps: Bool {
        guard case .object(let apps) = values["apps"] else { return present.contains("apps") }
        return apps.contains { !$0.isComment }
    }

    /// Whether what stands there is right; for `NAME_file`, whether it could be read.
    fileprivate func hasValue(at key: String) -> Bool {
        let suffix = "_file"
        return values[key.hasSuffix(suffix) ? String(key.dropLast(suffix.count)) : key] != nil
    }

    /// Where a key stands that an app may have from the top level.
    fileprivate func place(of key: String) -> String { present.contains(key) ? prefix + key : key }

    /// - Parameter own: without what is inherited, which is told where it stands.
    fileprivate func looseFiles(of app: String?, own: SettingsScope) -> Settings.LooseFiles {
        let files = Settings.LooseFiles.keys.compactMap { key in
            text(key).map { Settings.LooseFiles.File(key: key, place: own.place(of: key), path: $0) }
        }
        return Settings.LooseFiles(
            app: app, files: files, keyPassword: secret("apns_key_password"), pkcs12Password: secret("apns_p12_password"))
    }

    /// Whether any key of a credential stands here.
    fileprivate var mentionsCredential: Bool {
        CredentialKind.allCases.contains { !present.isDisjoint(with: $0.mentions) }
    }
}
