import ArgumentParser
import Glibc
import JSONBytes
import RedisQueue

/// `gaplessd enqueue`: pushes jobs from files to a list.
struct Enqueue: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enqueue",
        abstract: "Checks newline-delimited JSON jobs from files or standard input and pushes them to a list.",
        discussion: """
            Every line is one job of at most 24 MiB. Empty lines are skipped. An invalid line is reported on stderr with its \
            file, line number and fault, and is not pushed. Valid lines are pushed byte for byte. A job with several tokens is \
            pushed if at least one token is valid; the invalid tokens are reported.

            A job without an app or a topic is invalid too. For this, the call reads the certificates of the settings, and no \
            key. If a certificate cannot be read, a job that may belong to it is pushed.

            --json prints one object at the end: "list", "pushed" and "invalid"; and on stderr one object per line for each \
            invalid line, and for each warning about a valid one: "file", "line", "fault" and "pushed".

            If SETTINGS.json is left out, the first file is recognized by its first line, a job with the key "data".

            With several lists in redis_queue_key, jobs are pushed to the first one, unless --list selects another.

            Exit status: 0 success, 65 invalid lines (the valid ones are pushed), 64 wrong usage, 69 Redis did not respond (the \
            number of acknowledged jobs is printed), 78 a fault in the settings, or Redis refused access; 1 a file cannot be read.
            """)

    @OptionGroup var file: SettingsArgument

    @Argument(
        help: ArgumentHelp("Files of jobs. '-', or no file, is standard input.", valueName: "FILE"), completion: .file())
    var files: [String] = []

    @OptionGroup var which: ListOption
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        var (file, files) = (file, files)
        file.passOn(to: &files)
        let reading = try file.read()
        let settings = reading.settings
        let list = try which.lists(of: settings, call: "enqueue")[0]
        let paths = files.isEmpty ? ["-"] : files
        // A misspelled name is reported before any job is pushed.
        for path in paths {
            do {
                try LineReader.check(path)
            } catch {
                throw reported(JobImport.FileError(path: path, fault: error))
            }
        }
        let client: RedisClient
        do {
            client = try RedisAccess.open(settings)
        } catch {
            throw error.told("redis")
        }
        var jobs = JobImport(settings, AppTopics(reading.settings.apps), client, list: list, json: json)
        do {
            for path in paths { try jobs.push(file: path) }
            try jobs.finish()
        } catch let error as RedisError {
            throw jobs.fail(error, settings)
        } catch let error as JobImport.FileError {
            // Pushes the jobs that were read before the file failed.
            try? jobs.finish()
            StandardStreams.print([jobs.result])
            throw reported(error)
        }
        StandardStreams.print([jobs.result])
        if jobs.invalidLines > 0 { throw ExitCode.badInput }
    }

    private func reported(_ error: JobImport.FileError) -> ExitCode {
        .failure.because("\(error.path.printable): \(error.fault)")
    }
}

/// Checks the lines of files and RPUSHes the valid ones in batches. Each batch is one command, which Redis executes atomically.
struct JobImport: ~Copyable {
    /// A file that cannot be read.
    struct FileError: Error {
        var path: String
        var fault: FileBytes.Fault
    }

    private typealias Place = (file: String, line: Int)

    private static let mostJobs = 500
    /// The limit of a batch. A single job may be larger.
    private static let mostBytes = 4 << 20

    private var reader: JobReader
    private let apps: AppTopics
    private var client: RedisClient
    private let list: String
    private let json: Bool
    /// Jobs without an acknowledgement. After an error, Redis may or may not have them.
    private var batch: [[UInt8]] = []
    private var batchBytes = 0
    /// Number of jobs that Redis has acknowledged.
    private var acknowledged = 0
    private var bar = ProgressBar()
    private(set) var invalidLines = 0

    /// - Parameter apps: without the certificates that cannot be read.
    init(_ settings: Settings, _ apps: AppTopics, _ client: consuming RedisClient, list: String, json: Bool = false) {
        reader = apps.routes.reader(retryLimit: settings.retryLimit)
        (self.apps, self.list, self.json) = (apps, list, json)
        self.client = client
    }

    /// - Throws: `FileError`, or `RedisError`.
    mutating func push(file path: String) throws {
        let name = path == "-" ? "stdin" : path.printable
        do {
            var lines = try LineReader(path)
            while let line = try lines.next() {
                switch line {
                // Complete lines of a pipe do not wait for later ones.
                case .pause: try flush()
                case .tooLong: reject((name, lines.number), "longer than \(LineReader.longestLine) bytes")
                case .line(let bytes): if isValid(bytes, at: (name, lines.number)) { try push(bytes) }
                }
                let share = lines.size.map { $0 > 0 ? Double(lines.bytesRead) / Double($0) : 1 }
                bar.update(share: share, "\(name): \(acknowledged.counted("job"))")
            }
        } catch let fault as FileBytes.Fault {
            throw FileError(path: path, fault: fault)
        }
    }

    /// Reports the faults of a line. An empty line is not pushed either.
    private mutating func isValid(_ line: [UInt8], at place: Place) -> Bool {
        if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) { return false }
        do {
            let job = try reader.read(line)
            if let fault = apps.fault(of: job) { return reject(place, fault.description) }
            for hint in job.hints { report(place, hint) }
            let faults = job.tokens.compactMap(\.fault)
            if let first = faults.first {
                if faults.count == job.tokens.count { return reject(place, "no valid token; first fault: \(first)") }
                report(place, "\(faults.count.grouped) of \(job.tokens.count.grouped) tokens are invalid; first fault: \(first)")
            }
            return true
        } catch {
            return reject(place, error.description)
        }
    }

    @discardableResult
    private mutating func reject(_ place: Place, _ fault: String) -> Bool {
        invalidLines += 1
        report(place, fault, isPushed: false)
        return false
    }

    private mutating func report(_ place: Place, _ text: String, isPushed: Bool = true) {
        bar.clear()
        let object: JSONValue = .members([
            "file": .string(place.file), "line": .integer(place.line), "fault": .string(text), "pushed": .bool(isPushed),
        ])
        StandardStreams.print(
            [json ? object.line : "\(place.file):\(place.line): \(text.printable)"], to: STDERR_FILENO)
    }

    private mutating func push(_ job: [UInt8]) throws(RedisError) {
        if batch.count == Self.mostJobs || (!batch.isEmpty && batchBytes + job.count > Self.mostBytes) { try flush() }
        batch.append(job)
        batchBytes += job.count
    }

    private mutating func flush() throws(RedisError) {
        if batch.isEmpty { return }
        let reply = try client.command([Array("RPUSH".utf8), Array(list.utf8)] + batch)
        guard reply.integer != nil else { throw .notRedis("no length after RPUSH") }
        acknowledged += batch.count
        batch.removeAll(keepingCapacity: true)
        batchBytes = 0
    }

    mutating func finish() throws(RedisError) {
        try flush()
        bar.clear()
    }

    /// Reports a lost or refusing Redis with the number of pushed jobs, and returns the exit code.
    mutating func fail(_ error: RedisError, _ settings: Settings) -> ExitCode {
        bar.clear()
        // Redis did not execute a refused command. It may have executed a command without a reply.
        let isRefused = if case .reply = error { true } else { false }
        let doubt = !batch.isEmpty && !isRefused ? ", and possibly \(batch.count.grouped) more" : ""
        return ProbeError(error, of: settings).told("redis", adding: "; \(summary)\(doubt)")
    }

    /// The last line of output.
    var result: String {
        if !json { return summary }
        return JSONValue.members([
            "list": .string(list), "pushed": .integer(acknowledged), "invalid": .integer(invalidLines),
        ]).line
    }

    private var summary: String {
        "\(acknowledged.counted("job")) pushed to \(list.printable)"
            + (invalidLines > 0 ? ", \(invalidLines.counted("invalid line"))" : "")
    }
}
