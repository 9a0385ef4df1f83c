import ArgumentParser
import Glibc

/// `gaplessd health`: asks the daemon on this machine whether it is healthy.
struct Health: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Asks the daemon at metrics_listen whether it is healthy, for the health check of a container.",
        discussion: """
            Prints the response of /healthz. It does not depend on Redis or APNs, so that an outage restarts no container.

            Exit status: 0 healthy, 1 the daemon reports a fault, 64 wrong usage, 69 no gaplessd responds, 78 a fault in the \
            settings, or metrics_listen is not set.
            """)

    @OptionGroup var file: SettingsArgument

    func run() throws {
        guard let address = try file.loadSettings().metricsListen, address.port != 0 else {
            let missing = SettingsError(
                key: "metrics_listen", problem: "required key is missing", expected: "the address and port of /healthz")
            StandardStreams.print([missing.line(file: file.settings)], to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
        guard let health = HealthRequest.send(to: address) else {
            StandardStreams.print(["health: no gaplessd responds at \(address.text)"], to: STDERR_FILENO)
            throw ExitCode.serviceUnavailable
        }
        guard health == "ok" else {
            StandardStreams.print(["health: \(health.printable)"], to: STDERR_FILENO)
            throw ExitCode.failure
        }
        StandardStreams.print([health])
    }
}
