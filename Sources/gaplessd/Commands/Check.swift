import ArgumentParser
import Glibc

/// Finds what is wrong before the daemon would.
struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Reads settings and credentials, reports every fault, and connects to Redis and to APNs.")

    @OptionGroup var file: SettingsArgument

    @Flag(help: "Do not connect.")
    var offline = false

    func run() throws {
        let configuration = try file.load()
        StandardStreams.print(CheckReport(configuration, now: Int64(time(nil))).lines)
        StandardStreams.print(configuration.warnings.map { "warning: \($0)" }, to: STDERR_FILENO)
        if !offline { try connect(configuration) }
    }

    /// One connection to Redis and one session for each app; all are tried, whatever the first ones say.
    private func connect(_ configuration: Configuration) throws {
        var faults: [ProbeFault] = []
        func probe(_ name: String, _ body: () throws(ProbeFault) -> String) {
            do {
                StandardStreams.print(["\(name): \(try body())"])
            } catch {
                StandardStreams.print(["\(name): \(error)"], to: STDERR_FILENO)
                faults.append(error)
            }
        }
        probe("redis") { () throws(ProbeFault) in try RedisProbe.run(configuration.settings) }
        for (app, credential) in zip(configuration.settings.apps, configuration.credentials) {
            probe("apns" + (app.name.map { " \($0.printable)" } ?? "")) { () throws(ProbeFault) in
                try APNSProbe.run(app, credential)
            }
        }
        if faults.contains(where: \.isOurs) { throw ExitCode.settingsFault }
        if !faults.isEmpty { throw ExitCode.serviceUnavailable }
    }
}

/// Why a service is of no use with these settings.
enum ProbeFault: Error, CustomStringConvertible {
    /// It does not answer: the settings may be right.
    case unavailable(String)
    /// It is there and cannot serve us now: TLS comes to nothing, or its memory is full.
    case failed(String)
    /// It answers, and does not want us.
    case refused(String)

    var isOurs: Bool {
        if case .refused = self { true } else { false }
    }

    var description: String {
        switch self {
        case .unavailable(let why): "no answer: \(why.printable)"
        case .failed(let why): "failed: \(why.printable)"
        case .refused(let why): "refused: \(why.printable)"
        }
    }
}
