import ArgumentParser
import Glibc
import JSONBytes
import PushPool

/// `gaplessd check`: tests the settings, the credentials and the connections.
struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Reads the settings and credentials, reports every fault, and connects to Redis and APNs.",
        discussion: """
            Prints every readable certificate, then every fault of the settings and credentials. If there are any, no \
            connection is made.

            Otherwise it binds metrics_listen (a port that a running gaplessd has bound is accepted), connects to Redis and \
            verifies the permissions that the daemon needs, and opens a session to the APNs server of each app. Each of these \
            checks runs even if an earlier one failed.

            APNs validates a signing key and a topic only on a request. With --prove, 'check' also sends one push per app, with \
            the topic of the app, to an invented token. The response BadDeviceToken proves the key, the team, the topic and \
            the environment; 'check' explains any other response and fails.

            As root, it also reports files that the user of the service cannot read.

            With --effective, it connects to nothing and prints every setting with its origin and value: 'file', the \
            NAME_file that contains a secret, 'inherited' from the top level, 'default', or 'derived' from another setting or \
            the certificate. A secret is only 'set' or 'not set'.

            --json prints one object: "ok", "exit_status", "faults" ("key", "problem", "remedy" and "file" of each; each is \
            also a line on stderr), "warnings", "certificates" ("app" or null for the top level, "of" apns or redis, "path", \
            "subject", "topics", "not_before", "not_after", "days_left"), "apps" ("app", "server", "credential", "topic") \
            and "checks" ("name", "ok" and "text" of each connection). With --effective it prints an array with \
            "app", "key", "value" and "origin" of each setting.

            Exit status: 0 all checks passed, 64 wrong usage, 69 Redis or APNs did not respond, failed TLS or sent a response \
            that proves nothing, 78 a fault in the settings or credentials, or Redis or APNs refused them.
            """)

    @OptionGroup var file: SettingsArgument
    @Flag(help: "Do not bind metrics_listen and do not connect.") var offline = false
    @Flag(help: "Send one push per app, with its topic, to an invented token.") var prove = false
    @Flag(help: "Print every setting with its origin and value, and do not connect.") var effective = false
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        if offline && prove { throw ValidationError("--offline and --prove exclude each other.") }
        if effective && prove { throw ValidationError("--effective and --prove exclude each other.") }
    }

    func run() throws {
        if effective { return try printEffective() }
        if json { return try printJSON() }
        let now = Int64(time(nil))
        let configuration = try file.load(beforeFaults: { StandardStreams.print(CheckReport($0, now: now).lines) })
        StandardStreams.print(CheckReport(configuration, now: now).lines)
        let warnings = configuration.warningLines + (ServiceUser(configuration.stateFolder)?.warnings(configuration) ?? [])
        StandardStreams.print(warnings.map { "warning: \($0)" }, to: STDERR_FILENO)
        // Apps with the same key share its provider tokens.
        let news = configuration.settings.apps.compactMap { $0.credential?.newsOfKeepingTokens() }.unique
        for each in news { each.warn() }
        if offline { return }
        let faults = connect(configuration, known: news) { name, result in
            switch result {
            case .success(let text): StandardStreams.print(["\(name): \(text)"])
            case .failure(let error): StandardStreams.print(["\(name): \(error)"], to: STDERR_FILENO)
            }
        }
        if let note = unproven(configuration) { StandardStreams.print([note]) }
        if let status = Self.status(faults) { throw status }
    }

    /// What `check` did not verify.
    private func unproven(_ configuration: Configuration) -> String? {
        let hasKey = configuration.settings.apps.contains { if case .signingKey = $0.source { true } else { false } }
        return prove || !hasKey
            ? nil : "signing keys: not proven, because APNs verifies them only with a push; use 'gaplessd check --prove'"
    }

    private static func status(_ faults: [ProbeError]) -> ExitCode? {
        faults.isEmpty ? nil : faults.contains(where: \.isOurs) ? .settingsFault : .serviceUnavailable
    }

    private func printJSON() throws {
        var result = CheckResult(of: file.settings, now: Int64(time(nil)))
        do throws(SettingsErrors) {
            let configuration = try Configuration.load(SettingsFile(path: file.settings))
            result.add(configuration)
            let news = configuration.settings.apps.compactMap { $0.credential?.newsOfKeepingTokens() }.unique
            for each in news { if case .notKept = each { result.add(warning: each.logText) } }
            for warning in ServiceUser(configuration.stateFolder)?.warnings(configuration) ?? [] { result.add(warning: warning) }
            if !offline {
                let faults = connect(configuration, known: news) { result.add($0, $1) }
                result.status = Self.status(faults)
                if let note = unproven(configuration) { result.add(warning: note) }
            }
        } catch {
            result.add(error)
            result.status = file.reported(error)
        }
        StandardStreams.print([result.object.line])
        if let status = result.status { throw status }
    }

    private func printEffective() throws {
        let settings = EffectiveSettings(try file.load())
        StandardStreams.print(json ? [settings.json.line] : settings.lines)
    }

    /// Runs every probe, and reports its result. Returns the failures.
    private func connect(
        _ configuration: Configuration, known news: [TokenNews], _ report: (String, Result<String, ProbeError>) -> Void
    ) -> [ProbeError] {
        var faults: [ProbeError] = []
        @discardableResult
        func probe(_ name: String, _ body: () throws(ProbeError) -> String) -> Bool {
            let result = Result { () throws(ProbeError) in try body() }
            report(name, result)
            if case .failure(let error) = result {
                faults.append(error)
                return false
            }
            return true
        }
        if let address = configuration.settings.metricsListen {
            probe("metrics") { () throws(ProbeError) in try ListenProbe.run(address) }
        }
        probe("redis") { () throws(ProbeError) in try RedisProbe.run(configuration.settings) }
        for (number, app) in configuration.settings.apps.enumerated() {
            let name = app.name.map { " \($0.printable)" } ?? ""
            let isOpen = probe("apns\(name)") { () throws(ProbeError) in
                try APNSProbe.run(app, known: news)
            }
            if prove && isOpen {
                probe("prove\(name)") { () throws(ProbeError) in try CredentialProof.run(configuration, app: number) }
            }
        }
        return faults
    }
}

/// What `check --json` prints.
private struct CheckResult {
    private let file: String
    private let now: Int64
    var status: ExitCode?
    private var faults: [SettingsError] = []
    private var warnings: [String] = []
    private var certificates: [JSONValue] = []
    private var apps: [JSONValue] = []
    private var checks: [JSONValue] = []

    /// - Parameter now: Unix seconds.
    init(of file: String, now: Int64) { (self.file, self.now) = (file, now) }

    mutating func add(warning: String) { warnings.append(warning) }

    mutating func add(_ errors: SettingsErrors) {
        faults = errors.faults
        for seen in errors.certificates {
            switch seen.owner {
            case .app(let name): add(seen.facts, path: seen.path, of: "apns", app: name)
            case .redis: add(seen.facts, path: seen.path, of: "redis", app: nil)
            }
        }
    }

    mutating func add(_ configuration: Configuration) {
        warnings += configuration.warningLines
        if let redis = configuration.redisCertificate { add(redis.facts, path: redis.path, of: "redis", app: nil) }
        for app in configuration.settings.apps {
            if let facts = app.certificate { add(facts, path: nil, of: "apns", app: app.name) }
            apps.append(
                .members([
                    "app": .optional(app.name), "server": .string(HostAndPort(app.pool.host, app.pool.port).text),
                    "credential": .optional(app.credential?.description), "topic": .optional(app.defaultTopic),
                ]))
        }
    }

    private mutating func add(_ facts: CertificateFacts, path: String?, of server: String, app: String?) {
        certificates.append(
            .members([
                "app": .optional(app), "of": .string(server), "path": .optional(path), "subject": .string(facts.subject),
                "topics": .array(facts.allTopics.map(JSONValue.string)), "not_before": .integer(facts.notBefore),
                "not_after": .integer(facts.notAfter), "days_left": .integer(facts.daysLeft(now: now)),
            ]))
    }

    mutating func add(_ name: String, _ result: Result<String, ProbeError>) {
        let (isOK, text): (Bool, String) =
            switch result {
            case .success(let text): (true, text)
            case .failure(let error): (false, "\(error)")
            }
        checks.append(.members(["name": .string(name), "ok": .bool(isOK), "text": .string(text)]))
    }

    var object: JSONValue {
        .members([
            "ok": .bool(status == nil), "exit_status": .integer(status?.rawValue ?? 0),
            "faults": .array(
                faults.map {
                    .members([
                        "key": .string($0.key), "problem": .string($0.problem), "remedy": .string($0.remedy),
                        "file": .string($0.file ?? file),
                    ])
                }),
            "warnings": .array(warnings.map(JSONValue.string)), "certificates": .array(certificates), "apps": .array(apps),
            "checks": .array(checks),
        ])
    }
}
