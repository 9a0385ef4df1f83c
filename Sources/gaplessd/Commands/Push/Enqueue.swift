import ArgumentParser
import Glibc
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

            With several lists in redis_queue_key, jobs are pushed to the first one, unless --list selects another.

            Exit status: 0 success, 65 invalid lines (the valid ones are pushed), 64 wrong usage, 69 Redis did not respond (the \
            number of acknowledged jobs is printed), 78 a fault in the settings, or Redis refused access; 1 a file cannot be read.
            """)

    @OptionGroup var file: SettingsArgument

    @Argument(
        help: ArgumentHelp("Files of jobs. '-', or no file, is standard input.", valueName: "FILE"), completion: .file())
    var files: [String] = []

    @OptionGroup var which: ListOption

    func run() throws {
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
        var jobs = JobImport(settings, AppTopics(reading.settings.apps), JobPusher(client, list: list))
        do {
            for path in paths { try jobs.push(file: path) }
            try jobs.finish()
        } catch let error as RedisError {
            throw jobs.fail(error, settings)
        } catch let error as JobImport.FileError {
            // Pushes the jobs that were read before the file failed.
            try? jobs.finish()
            StandardStreams.print([jobs.summary])
            throw reported(error)
        }
        StandardStreams.print([jobs.summary])
        if jobs.invalidLines > 0 { throw ExitCode.badInput }
    }

    private func reported(_ error: JobImport.FileError) -> ExitCode {
        StandardStreams.print(["\(error.path.printable): \(error.fault)"], to: STDERR_FILENO)
        return .failure
    }
}
