import ArgumentParser
import Clocks
import Glibc
import JSONBytes

/// One push, to see whether a credential, a topic and a token fit together.
struct Send: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Sends one push straight to APNs, without Redis.",
        discussion: """
            The push obeys the rules of a job in the queue: what is not given is worked out as there. With --channel it is a \
            broadcast to all who subscribed to that channel.

            Prints one line: status, reason, apns-id, milliseconds from the request to its answer. --json prints an object with \
            "status", "reason", "apns_id", "timestamp" (of a 410), "milliseconds" and "connect_milliseconds".

            Exit status: 0 APNs has accepted it, 1 APNs has refused it, or the word filter has stopped it, 64 wrong usage (a bad token among it), 69 APNs did not \
            answer, or TLS failed; 78 a fault in the settings or credentials.
            """)

    @OptionGroup var file: SettingsArgument
    @OptionGroup var push: PushOptions

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let configuration = try file.load()
        let names = Set(configuration.settings.apps.compactMap(\.name))
        let job: Job
        do {
            var reader = JobReader(retryLimit: configuration.settings.retryLimit, appNames: names)
            job = try reader.read(push.job)
        } catch {
            // Without the offset: the user gave options, not the job's bytes.
            throw ExitCode.wrongUsage("\(error.problem.printable).", of: "send")
        }
        guard !job.isExpired(now: WallClock.now().unixSeconds) else {
            throw ExitCode.wrongUsage("--expires-at is in the past.", of: "send")
        }
        guard let app = SingleSend.route(job, configuration) else {
            throw ExitCode.wrongUsage(Self.whyNoApp(job, configuration), of: "send")
        }
        var masked: [UInt8]?
        switch configuration.filter?.judge(job.data, of: job.bytes) {
        case .clean, nil: break
        case .masked(let payload): masked = payload
        case .stopped:
            StandardStreams.print(["Filtered: a word of filter_words must not reach a device."], to: STDERR_FILENO)
            throw ExitCode.failure
        }
        do {
            let answer = try SingleSend(configuration, app: app, masked: masked).run(job)
            StandardStreams.print([json ? answer.object.line : answer.line])
            if answer.status != 200 { throw ExitCode.failure }
        } catch let fault as SingleSend.Fault {
            StandardStreams.print(["apns: \(fault.description.printable)"], to: STDERR_FILENO)
            throw ExitCode.serviceUnavailable
        }
    }
}

extension Send {
    /// What is missing for the choice of an app and a topic.
    private static func whyNoApp(_ job: Job, _ configuration: Configuration) -> String {
        if let topic = job.topic { return "No app has the topic \(topic.printable)." }
        let apps = zip(configuration.settings.apps, configuration.credentials)
        guard job.app == nil, apps.allSatisfy({ $0.0.name != nil }) else { return "--topic is needed: the settings name none." }
        // Without --app the topic would find none of them.
        let option = apps.contains { $0.1.topic != nil } ? "--app or --topic is needed" : "--app and --topic are needed"
        let names = apps.compactMap(\.0.name?.orQuotes.printable).joined(separator: ", ")
        return "\(option): the settings have no credential at the top level, only apps (\(names))."
    }
}
