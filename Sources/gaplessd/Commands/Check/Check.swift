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
            checks runs even if an earlier one failed. APNs validates a signing key only on a request; use 'send' to test it.

            Exit status: 0 all checks passed, 64 wrong usage, 69 Redis or APNs did not respond or failed TLS, 78 a fault in the \
            settings or credentials, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument

    @Flag(help: "Do not bind metrics_listen and do not connect.")
    var offline = false

    func run() throws {
        let now = Int64(time(nil))
        let configuration = try file.load(beforeFaults: { StandardStreams.print(CheckReport($0, now: now).lines) })
        StandardStreams.print(CheckReport(configuration, now: now).lines)
        StandardStreams.print(configuration.warnings.map { "warning: \($0)" }, to: STDERR_FILENO)
        // Apps with the same key share its provider tokens.
        let news = configuration.credentials.compactMap { $0.credential.newsOfKeepingTokens() }.unique
        for each in news { each.warn() }
        if !offline { try connect(configuration, known: news) }
    }

    /// Runs every probe, and then throws the exit code if any failed.
    private func connect(_ configuration: Configuration, known news: [TokenNews]) throws {
        var faults: [ProbeError] = []
        func probe(_ name: String, _ body: () throws(ProbeError) -> String) {
            do {
                StandardStreams.print(["\(name): \(try body())"])
            } catch {
                StandardStreams.print(["\(name): \(error)"], to: STDERR_FILENO)
                faults.append(error)
            }
        }
        if let address = configuration.settings.metricsListen {
            probe("metrics") { () throws(ProbeError) in try ListenProbe.run(address) }
        }
        probe("redis") { () throws(ProbeError) in try RedisProbe.run(configuration.settings) }
        for (app, credential) in zip(configuration.settings.apps, configuration.credentials) {
            probe("apns" + (app.name.map { " \($0.printable)" } ?? "")) { () throws(ProbeError) in
                try APNSProbe.run(app, credential, known: news)
            }
        }
        if faults.contains(where: \.isOurs) { throw ExitCode.settingsFault }
        if !faults.isEmpty { throw ExitCode.serviceUnavailable }
    }
}
