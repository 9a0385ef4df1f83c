import ArgumentParser
import Glibc
import JSONBytes
import Platform
import PushPool

/// `gaplessd send`: sends one push, to test a credential, topic and token.
struct Send: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Sends one push directly to APNs, without Redis.",
        discussion: """
            The rules and defaults of a job in the queue apply. With --channel, the push is a broadcast to the subscribers of \
            that channel.

            Prints one line: status, reason, apns-id, milliseconds from the request to the response. --json prints an object \
            with "status", "reason", "apns_id", "timestamp" (of a 410), "milliseconds" and "connect_milliseconds".

            Exit status: 0 APNs accepted the push; 1 APNs rejected it, or the word filter stopped it; 64 wrong usage, including \
            an invalid token; 69 APNs did not respond or failed TLS, 78 a fault in the settings or credentials.
            """)

    @OptionGroup var file: SettingsArgument
    @OptionGroup var push: PushOptions

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let configuration = try file.load()
        let job: Job
        do {
            var reader = AppRoutes(configuration.settings.apps).reader(retryLimit: configuration.settings.retryLimit)
            job = try reader.read(push.job)
        } catch {
            // Without the offset: the user did not write the job.
            throw ExitCode.wrongUsage("\(error.problem.printable).", of: "send")
        }
        guard !job.isExpired(now: WallClock.now().unixSeconds) else {
            throw ExitCode.wrongUsage("--expires-at is in the past.", of: "send")
        }
        guard let app = SingleSend.route(job, configuration) else {
            throw ExitCode.wrongUsage(Self.missingOption(job, configuration), of: "send")
        }
        var masked: [UInt8]?
        switch configuration.filter?.judge(job.data, of: job.bytes) {
        case .clean, nil: break
        case .masked(let payload): masked = payload
        case .stopped:
            StandardStreams.print(["Filtered: the payload contains a word from filter_words."], to: STDERR_FILENO)
            throw ExitCode.failure
        }
        do {
            let response = try SingleSend(configuration, app: app, masked: masked).run(job)
            StandardStreams.print([json ? response.object.line : response.line])
            if response.status != 200 { throw ExitCode.failure }
        } catch let error as SingleSend.SendError {
            StandardStreams.print(["apns: \(error.description.printable)"], to: STDERR_FILENO)
            throw ExitCode.serviceUnavailable
        }
    }

    /// Returns the message about the option without which no app or topic is selected.
    private static func missingOption(_ job: Job, _ configuration: Configuration) -> String {
        if let topic = job.topic { return "No app has the topic \(topic.printable)." }
        let apps = configuration.settings.apps
        guard job.app == nil, apps.allSatisfy({ $0.name != nil }) else {
            return "--topic is required: the settings define none."
        }
        // If no app has a topic, --topic alone selects none.
        let option = apps.contains { $0.defaultTopic != nil } ? "--app or --topic is required" : "--app and --topic are required"
        let names = apps.compactMap(\.name?.orQuotes.printable).joined(separator: ", ")
        return "\(option): the settings have no top-level credential, only apps (\(names))."
    }
}
