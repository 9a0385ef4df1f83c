import ArgumentParser
import Glibc
import RedisQueue

/// Checks the lines of files and pushes the valid ones.
struct JobImport: ~Copyable {
    /// A file that cannot be read.
    struct FileError: Error {
        var path: String
        var fault: FileBytes.Fault
    }

    private var reader: JobReader
    private let apps: AppTopics
    private var pusher: JobPusher
    private var bar = ProgressBar()
    private(set) var invalidLines = 0

    /// - Parameter apps: without the certificates that cannot be read.
    init(_ settings: Settings, _ apps: AppTopics, _ pusher: consuming JobPusher) {
        reader = apps.routes.reader(retryLimit: settings.retryLimit)
        self.apps = apps
        self.pusher = pusher
    }

    /// - Throws: `FileError`, or `RedisError`.
    mutating func push(file path: String) throws {
        let name = path == "-" ? "stdin" : path.printable
        do {
            var lines = try LineReader(path)
            while let line = try lines.next() {
                switch line {
                // Complete lines of a pipe do not wait for later ones.
                case .pause: try pusher.flush()
                case .tooLong: reject("\(name):\(lines.number)", "longer than \(LineReader.longestLine) bytes")
                case .line(let bytes): try push(bytes, from: "\(name):\(lines.number)")
                }
                let share = lines.size.map { $0 > 0 ? Double(lines.bytesRead) / Double($0) : 1 }
                bar.update(share: share, "\(name): \(pusher.acknowledged.counted("job"))")
            }
        } catch let fault as FileBytes.Fault {
            throw FileError(path: path, fault: fault)
        }
    }

    private mutating func push(_ line: [UInt8], from place: String) throws(RedisError) {
        if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) { return }
        do {
            let job = try reader.read(line)
            if let fault = apps.fault(of: job) { return reject(place, fault.description) }
            for hint in [job.notBeforeHint, job.expiryHint?.text].compactMap(\.self) { report(place, hint) }
            let faults = job.tokens.compactMap(\.fault)
            if let first = faults.first {
                if faults.count == job.tokens.count { return reject(place, "no valid token; first fault: \(first)") }
                report(place, "\(faults.count) of \(job.tokens.count) tokens are invalid; first fault: \(first)")
            }
        } catch {
            return reject(place, error.description)
        }
        try pusher.push(line)
    }

    private mutating func reject(_ place: String, _ fault: String) {
        invalidLines += 1
        report(place, fault)
    }

    private mutating func report(_ place: String, _ text: String) {
        bar.clear()
        StandardStreams.print(["\(place): \(text.printable)"], to: STDERR_FILENO)
    }

    mutating func finish() throws(RedisError) {
        try pusher.flush()
        bar.clear()
    }

    /// Reports a lost or refusing Redis with the number of pushed jobs, and returns the exit code.
    mutating func fail(_ error: RedisError, _ settings: Settings) -> ExitCode {
        bar.clear()
        // Redis did not execute a refused command. It may have executed a command without a reply.
        let isRefused = if case .reply = error { true } else { false }
        let doubt = pusher.unconfirmed > 0 && !isRefused ? ", and possibly \(pusher.unconfirmed) more" : ""
        return ProbeError(error, of: settings).told("redis", adding: "; \(summary)\(doubt)")
    }

    var summary: String {
        "\(pusher.acknowledged.counted("job")) pushed to \(pusher.list.printable)"
            + (invalidLines > 0 ? ", \(invalidLines.counted("invalid line"))" : "")
    }
}
