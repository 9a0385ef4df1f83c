import ArgumentParser
import Glibc
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

            Exit status: 0 all checks passed, 64 wrong usage, 69 Redis or APNs did not respond, failed TLS or sent a response \
            that proves nothing, 78 a fault in the settings or credentials, or Redis or APNs refused them.
            """)

    @OptionGroup var file: SettingsArgument

    @Flag(help: "Do not bind metrics_listen and do not connect.")
    var offline = false

    @Flag(help: "Send one push per app, with its topic, to an invented token.")
    var prove = false

    @Flag(help: "Print every setting with its origin and value, and do not connect.")
    var effective = false

    @Flag(help: "With --effective: print JSON.")
    var json = false

    func validate() throws {
        if offline && prove { throw ValidationError("--offline and --prove exclude each other.") }
        if effective && prove { throw ValidationError("--effective and --prove exclude each other.") }
        if json && !effective { throw ValidationError("--json requires --effective.") }
    }

    func run() throws {
        if effective { return try printEffective() }
        let now = Int64(time(nil))
        let configuration = try file.load(beforeFaults: { StandardStreams.print(CheckReport($0, now: now).lines) })
        StandardStreams.print(CheckReport(configuration, now: now).lines)
        StandardStreams.print(configuration.warningLines.map { "warning: \($0)" }, to: STDERR_FILENO)
        StandardStreams.print(ServiceUser(configuration.stateFolder)?.warnings(configuration) ?? [], to: STDERR_FILENO)
        // Apps with the same key share its provider tokens.
        let news = configuration.settings.apps.compactMap { $0.credential?.newsOfKeepingTokens() }.unique
        for each in news { each.warn() }
        if !offline { try connect(configuration, known: news) }
    }

    private func printEffective() throws {
        let settings = EffectiveSettings(try file.load())
        StandardStreams.print(json ? [settings.json.line] : settings.lines)
    }

    /// Runs every probe, and then throws the exit code if any failed.
    private func connect(_ configuration: Configuration, known news: [TokenNews]) throws {
        var faults: [ProbeError] = []
        @discardableResult
        func probe(_ name: String, _ body: () throws(ProbeError) -> String) -> Bool {
            do {
                StandardStreams.print(["\(name): \(try body())"])
                return true
            } catch {
                StandardStreams.print(["\(name): \(error)"], to: STDERR_FILENO)
                faults.append(error)
                return false
            }
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
        if !prove, configuration.settings.apps.contains(where: { if case .signingKey = $0.source { true } else { false } }) {
            StandardStreams.print([
                "signing keys: not proven, because APNs verifies them only with a push; use 'gaplessd check --prove'"
            ])
        }
        if faults.contains(where: \.isOurs) { throw ExitCode.settingsFault }
        if !faults.isEmpty { throw ExitCode.serviceUnavailable }
    }
}
