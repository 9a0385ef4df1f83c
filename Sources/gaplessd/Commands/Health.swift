import ArgumentParser
import HTTP1
import JSONBytes
import Platform

/// `gaplessd health`: asks the daemon on this machine whether it is healthy.
struct Health: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Asks the daemon at metrics_listen whether it is healthy, for the health check of a container.",
        discussion: """
            Prints the response of /healthz; with --json, an object with "healthy" and "response" (null if no gaplessd \
            responds). It does not depend on Redis or APNs, so that an outage restarts no container.

            Exit status: 0 healthy, 1 the daemon reports a fault, 64 wrong usage, 69 no gaplessd responds, 78 a fault in the \
            settings, or metrics_listen is not set.
            """)

    @OptionGroup var file: SettingsArgument
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        guard let address = try file.loadSettings().metricsListen, address.port != 0 else {
            let missing = SettingsError(
                key: "metrics_listen", problem: "required key is missing", expected: "the address and port of /healthz")
            throw ExitCode.settingsFault.because(missing.line(file: file.settings))
        }
        let response = HealthRequest.send(to: address)
        if json { StandardStreams.print(["healthy": .bool(response == "ok"), "response": .optional(response)]) }
        guard let health = response else {
            throw ExitCode.serviceUnavailable.because("health: no gaplessd responds at \(address.text)")
        }
        guard health == "ok" else { throw ExitCode.failure.because("health: \(health.printable)") }
        if !json { StandardStreams.print([health]) }
    }
}

/// `GET /healthz` to the daemon that serves `metrics_listen`.
enum HealthRequest {
    /// A gaplessd responds within a millisecond.
    private static let timeout = Duration.seconds(1)

    /// Returns the first line of `GET /healthz`; `nil` if no gaplessd responds.
    static func send(to address: HostAndPort) -> String? {
        let request = "GET /healthz HTTP/1.1\r\nHost: \(address.text)\r\nConnection: close\r\n\r\n"
        let deadline = Instant.now + timeout
        guard var client = try? HTTPClient.open(host: address.host, port: address.port, tls: nil, until: deadline),
            let response = try? client.exchange(Array(request.utf8), keepsBody: true, until: deadline),
            let head = response.head, [200, 503].contains(head.status), head.values("server") == [StatusServer.name]
        else { return nil }
        return String(decoding: response.body, as: UTF8.self).split(separator: "\n").first.map(String.init)
    }
}
