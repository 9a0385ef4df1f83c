import ArgumentParser
import Glibc
import JSONBytes
import Platform

/// `gaplessd explain`: prints the request that a job produces, without sending it.
struct Explain: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Prints the request that a job produces, or why the job becomes a dead letter. Sends nothing.",
        discussion: """
            Reads one job from FILE or standard input. Prints the app, the server, the path, the headers and the size of the \
            payload, as the daemon with these settings sends them now. Uses neither Redis nor APNs.

            --json prints one object: "app", "server", "path", "headers", "payload_bytes", "payload_limit", "requests" (the \
            number of valid tokens), "bad_tokens", "not_before" and "masked" (whether the filter changes the payload); or \
            "dead_letter" with the reason.

            Exit status: 0 success, 65 the job becomes a dead letter, 64 wrong usage, 78 a fault in the settings or credentials; \
            1 the file cannot be read.
            """)

    @OptionGroup var file: SettingsArgument

    @Argument(
        help: ArgumentHelp("A file with one job. '-', or no file, is standard input.", valueName: "FILE"), completion: .file())
    var job = "-"

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let configuration = try file.load()
        do {
            let explanation = try Explanation(read(), configuration, now: WallClock.now().unixSeconds)
            StandardStreams.print(json ? [explanation.object.line] : explanation.lines)
        } catch let error as Explanation.Rejection {
            if json {
                StandardStreams.print([JSONValue.members(["dead_letter": .string(error.reason)]).line])
            } else {
                StandardStreams.print(["dead letter: \(error.reason.printable)"])
            }
            throw ExitCode.badInput
        }
    }

    /// Returns the bytes of the file without the line ends at its end.
    private func read() throws -> [UInt8] {
        var bytes: [UInt8] = []
        do {
            var reader = try LineReader(job)
            reading: while true {
                switch try reader.next() {
                case .line(let line): bytes += (bytes.isEmpty ? [] : [UInt8(ascii: "\n")]) + line
                case .tooLong: throw Explanation.Rejection.tooLarge
                case .pause: continue
                case nil: break reading
                }
            }
        } catch let fault as FileBytes.Fault {
            StandardStreams.print(["\(job.printable): \(fault)"], to: STDERR_FILENO)
            throw ExitCode.failure
        }
        while bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        return bytes
    }
}
