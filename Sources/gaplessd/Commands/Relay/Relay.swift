import ArgumentParser
import Glibc
import Platform

/// `gaplessd relay`: posts results to `relay_url`.
struct Relay: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay",
        abstract: "Posts the entries of redis_results_key to relay_url until SIGTERM or SIGINT.",
        discussion: """
            Each request is a JSON array of results. With relay_secret, the header X-Gapless-Signature contains \
            'sha256=' and the HMAC-SHA256 of the body; relay_headers adds headers. A response of 2xx acknowledges the batch; \
            after any other response, or none, it is sent again with backoff, and in halves if it was too large or too slow. \
            Each result is delivered at least once. Several relays share the work.

            A result that the receiver refuses alone in \(RelayPlan.mostAttempts) attempts, while it accepts others, is set \
            aside in the list {Q}:gapless:refused of the first list, and logged.

            Exit status: 0 after a signal, 64 wrong usage, 78 a fault in the settings, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument

    func run() throws {
        let settings = try file.loadSettings()
        var missing: [SettingsError] = []
        if settings.relay.url == nil {
            missing.append(SettingsError(key: "relay_url", problem: "required key is missing", expected: RelayURL.expected))
        }
        if settings.redis.resultsKey == nil {
            missing.append(
                SettingsError(
                    key: "redis_results_key", problem: "required key is missing",
                    expected: "the stream to which the daemon writes results"))
        }
        guard let url = settings.relay.url, let stream = settings.redis.resultsKey else {
            StandardStreams.print(missing.map { $0.line(file: file.settings) }, to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
        // Before the first thread, which is the log's: threads inherit the signal mask.
        let signals = try SignalInbox()
        let log = try Log(format: settings.log.format, level: settings.log.level)
        defer { log.close() }
        let client: RelayClient
        do throws(TLSError) {
            let tls = url.isSecure ? try TLSContext(clientTrusting: nil, identity: nil, protocols: []) : nil
            client = RelayClient(url, secret: settings.relay.secret, headers: settings.relay.headers ?? [], tls: tls)
        } catch {
            throw ProbeError.failed("\(error)").told("relay")
        }
        log.info("gaplessd \(gaplessdVersion) relay started: \(stream) to \(url.shown).", .relayStarted)
        try RelayLoop(settings, stream: stream, client, signals, log).run()
        log.info("Relay stopped.", .relayStopped)
    }
}
