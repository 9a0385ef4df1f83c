import ArgumentParser
import Glibc
import RedisQueue

/// Jobs from files into the list.
struct Enqueue: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enqueue",
        abstract: "Pushes newline-delimited JSON jobs from files or standard input into the list, each checked first.",
        discussion: """
            Every line is one job, at most 64 MiB long; empty lines are skipped. A line that is no job is named on stderr by \
            file, line number and fault, and is not pushed; all others are, as they are. Of a job with several tokens the bad \
            ones are named, and it is pushed if any is good.

            With several lists in redis_queue_key jobs go into the first, unless --list names another.

            Exit status: 0, 65 some lines were bad (the good ones are pushed), 64 wrong usage, 69 Redis does not answer (how \
            many jobs it had acknowledged before is said), 78 a fault in the settings, or Redis refuses us; 1 a file cannot be read.
            """)

    @OptionGroup var file: SettingsArgument

    @Argument(
        help: ArgumentHelp("Files of jobs; '-', or no file, is standard input.", valueName: "FILE"), completion: .file())
    var files: [String] = []

    @OptionGroup var which: ListOption

    func run() throws {
        let settings = try file.loadSettings()
        let list = try which.lists(of: settings, call: "enqueue")[0]
        let paths = files.isEmpty ? ["-"] : files
        // A name that is misspelt is said before anything is pushed.
        for path in paths {
            do {
                try LineReader.check(path)
            } catch {
                throw told(InputFault(path: path, fault: error))
            }
        }
        let client: RedisClient
        do {
            client = try RedisAccess.open(settings)
        } catch {
            throw error.told("redis")
        }
        var run = EnqueueRun(settings, JobPusher(client, list: list))
        do {
            for path in paths { try run.enqueue(path) }
            try run.finish()
        } catch let error as RedisError {
            throw run.fell(error, settings)
        } catch let fault as InputFault {
            // A file that fails in the middle: what was read of it is pushed.
            try? run.finish()
            StandardStreams.print([run.summary])
            throw told(fault)
        }
        StandardStreams.print([run.summary])
        if run.bad > 0 { throw ExitCode.badInput }
    }

    private func told(_ fault: InputFault) -> ExitCode {
        StandardStreams.print(["\(fault.path.printable): \(fault.fault)"], to: STDERR_FILENO)
        return .failure
    }
}

/// A file that cannot be read.
private struct InputFault: Error {
    var path: String
    var fault: FileBytes.Fault
}

/// One `enqueue` on its way.
private struct EnqueueRun: ~Copyable {
    private var reader: JobReader
    private var pusher: JobPusher
    private var bar = ProgressBar()
    /// Lines that were no jobs.
    private(set) var bad = 0

    init(_ settings: Settings, _ pusher: consuming JobPusher) {
        reader = JobReader(retryLimit: settings.retryLimit, appNames: Set(settings.apps.compactMap(\.name)))
        self.pusher = pusher
    }

    /// - Throws: `InputFault`, or `RedisError`.
    mutating func enqueue(_ path: String) throws {
        let name = path == "-" ? "stdin" : path.printable
        do {
            var lines = try LineReader(path)
            while let line = try lines.next() {
                switch line {
                // What has come is not to wait for what may come some day.
                case .pause: try pusher.flush()
                case .tooLong: refuse("\(name):\(lines.number)", "longer than \(LineReader.longestLine) bytes")
                case .line(let bytes): try take(bytes, at: "\(name):\(lines.number)")
                }
                let share = lines.size.map { $0 > 0 ? Double(lines.bytesRead) / Double($0) : 1 }
                bar.update(share: share, "\(name): \(pusher.acknowledged.counted("job"))")
            }
        } catch let fault as FileBytes.Fault {
            throw InputFault(path: path, fault: fault)
        }
    }

    private mutating func take(_ line: [UInt8], at place: String) throws(RedisError) {
        if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) { return }
        do {
            let job = try reader.read(line)
            if let hint = job.notBeforeHint { tell(place, hint) }
            let faults = job.tokens.compactMap(\.fault)
            if let first = faults.first {
                if faults.count == job.tokens.count { return refuse(place, "every \(first)") }
                tell(place, "\(faults.count) of \(job.tokens.count) tokens cannot be pushed, the first: \(first)")
            }
        } catch {
            return refuse(place, error.description)
        }
        try pusher.push(line)
    }

    private mutating func refuse(_ place: String, _ fault: String) {
        bad += 1
        tell(place, fault)
    }

    private mutating func tell(_ place: String, _ text: String) {
        bar.clear()
        StandardStreams.print(["\(place): \(text.printable)"], to: STDERR_FILENO)
    }

    mutating func finish() throws(RedisError) {
        try pusher.flush()
        bar.clear()
    }

    /// Redis went away in the middle: what is certain, and what is not.
    mutating func fell(_ error: RedisError, _ settings: Settings) -> ExitCode {
        bar.clear()
        // A command that Redis refuses is not carried out; one without an answer may have been.
        let isRefused = if case .reply = error { true } else { false }
        let doubt = pusher.unconfirmed > 0 && !isRefused ? ", and of \(pusher.unconfirmed) more it is not known" : ""
        return ProbeError(error, of: settings).told("redis", adding: "; \(summary)\(doubt)")
    }

    var summary: String {
        "\(pusher.acknowledged.counted("job")) pushed to \(pusher.list.printable)"
            + (bad > 0 ? ", \(bad.counted("bad line"))" : "")
    }
}
