import ArgumentParser
import Glibc
import PushPool

/// Finds what is wrong before the daemon would.
struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Reads settings and credentials, reports every fault, and connects to Redis and to APNs.",
        discussion: """
            Faults of settings and credentials are told all at once, after what every certificate says that can be read, and \
            nothing is connected to then. Else it listens at metrics_listen for a moment, or asks who has that port if it is \
            taken: a running gaplessd is right. It asks Redis for the rights that the daemon needs, and opens a session to each \
            app's server; all are tried, whatever the first ones say. A signing key is judged by APNs at the first push only: 'send' \
            tries that.

            Exit status: 0 all is well, 64 wrong usage, 69 Redis or APNs did not answer, or TLS failed; 78 a fault in the \
            settings or credentials, or Redis refuses us.
            """)

    @OptionGroup var file: SettingsArgument

    @Flag(help: "Neither listen nor connect.")
    var offline = false

    func run() throws {
        let now = Int64(time(nil))
        let configuration = try file.load { StandardStreams.print(CheckReport($0, now: now).lines) }
        StandardStreams.print(CheckReport(configuration, now: now).lines)
        StandardStreams.print(configuration.warnings.map { "warning: \($0)" }, to: STDERR_FILENO)
        // Apps with the same key have the same tokens.
        let news = configuration.credentials.compactMap { $0.credential.newsOfKeepingTokens() }.unique
        for each in news { each.warn() }
        if !offline { try connect(configuration, told: news) }
    }

    /// One connection to Redis and one session for each app; all are tried, whatever the first ones say.
    private func connect(_ configuration: Configuration, told news: [TokenNews]) throws {
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
                try APNSProbe.run(app, credential, told: news)
            }
        }
        if faults.contains(where: \.isOurs) { throw ExitCode.settingsFault }
        if !faults.isEmpty { throw ExitCode.serviceUnavailable }
    }
}
