import JSONBytes
import PushPool

@testable import RedisQueue
@testable import gaplessd

/// Any bytes of a producer or a peer in a log line.
enum LogFuzz {
    private static let targets: [LogTarget] = [.file, .socket, .terminal, .other]

    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let choice = input.byte()
        let target = targets[Int(choice >> 4) % 4]
        // Every eighth text is long enough for the limits of the journal and of invalid jobs.
        let isLong = choice & 0x88 == 0x88 && input.rest.count % 2 == 1
        let job = isLong ? Array(repeatElement(input.rest, count: 300).joined().prefix(80_000)) : Array(input.rest)
        let text = String(decoding: job, as: UTF8.self)
        for format in LogFormat.allCases {
            var lines = LogLines(format: format, target: target)
            lines.begin(.error)
            lines.message("Test")
            switch choice & 7 {
            case 0: lines.badJob(job, Redaction(isOn: false))
            case 1: lines.sentence(text)
            case 2: lines.field("reason", text, after: " ", before: "!")
            case 3:
                lines.identifier(
                    JobReader.identity(of: job).identifier.map { String(decoding: $0, as: UTF8.self) } ?? "0")
            case 4:
                guard (try? JSONValue.parse(job)) != nil else { return }
                lines.validJob(Job.onOneLine(job))
            default: lines.jobEvent(.pushFailed, LoggedPush(app: text, apnsID: text, attempt: .max, trace: text))
            }
            lines.end()
            try check(lines.bytes, format, target)
        }
        if (try? JSONValue.parse(job)) != nil { try checkSent(job, target) }
    }

    private static func checkSent(_ job: [UInt8], _ target: LogTarget) throws {
        for format in LogFormat.allCases {
            var lines = LogLines(format: format, target: target)
            lines.refresh()
            lines.sent(job)
            let isOneLine = lines.bytes.count { $0 == UInt8(ascii: "\n") } == 1
            if target == .file { try BrokenPromise.unless(isOneLine, "a sent job is not one line") }
        }
    }

    private static func check(_ bytes: [UInt8], _ format: LogFormat, _ target: LogTarget) throws {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        try BrokenPromise.unless(lines.last?.isEmpty == true, "the last line has no end")
        let goesToJournal = format == .journal || format == .text && target == .socket
        try BrokenPromise.unless(goesToJournal || lines.count == 2, "a line break of the text is in the log")
        for line in lines.dropLast() {
            let begins =
                switch format {
                case .text: "[Gapless E] "
                case .journal: "<3>[Gapless E] "
                case .json: "{\"time\": "
                }
            try BrokenPromise.unless(line.starts(with: begins.utf8), "a line does not begin as a line of the log")
            if goesToJournal { try BrokenPromise.unless(line.count < 40 << 10, "a line of \(line.count) bytes in the journal") }
            if format == .json { try BrokenPromise.unless((try? JSONValue.parse(Array(line))) != nil, "the line is not JSON") }
            guard let text = String(validating: line, as: UTF8.self) else {
                throw BrokenPromise(description: "the line is not UTF-8")
            }
            let hasControl = text.unicodeScalars.contains { $0.isUnprintable && $0 != "\t" }
            try BrokenPromise.unless(!hasControl, "the line has a control character")
        }
    }
}

/// Elements of the lists and streams beside the queue, as the commands read and print them.
enum RecordFuzz {
    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let choice = input.byte()
        let record = Array(input.rest)
        switch choice % 6 {
        case 0: try read(letter: record)
        case 1: try show(FeedbackLine.text(record, Redaction(isOn: choice & 8 != 0)), FeedbackLine.json(record))
        case 2: read(cancelled: record)
        case 3: try find(record, choice)
        case 4:
            let left = Duration.milliseconds(Int64(choice))
            try show(PauseNote(QueuePause(.app("a"), left: left, record: record)).scopedSentence.printable)
        default: relay(record)
        }
    }

    private static func read(letter record: [UInt8]) throws {
        let letter = DeadLetter(record: record)
        let entry = (record: record, letter: letter)
        for redaction in [Redaction(isOn: false), Redaction(isOn: true)] {
            try show(DeadLetterLine.text(entry, redaction), DeadLetterLine.json(entry))
            for line in DeadLetterLine.full(entry, redaction) { try show(line) }
        }
        guard let letter else { return }
        let app = AppSelection("a", AppRoutes([.init(topic: "t"), .init(name: "a")]))
        let filter = DeadLetterFilter(reason: nil, app: app, token: "ab", before: .max)
        _ = filter.matches(letter)
        _ = Job.unmarked(letter.job)
        if letter.field == nil {
            try BrokenPromise.unless(DeadLetter(record: letter.record()) == letter, "the record is written as another one")
        }
    }

    private static func read(cancelled record: [UInt8]) {
        guard let cancelled = CancelledRecord(record) else { return }
        _ = cancelled.job
        _ = cancelled.bytes()
    }

    private static func find(_ record: [UInt8], _ choice: UInt8) throws {
        let place = QueueScan.Place.allCases[Int(choice >> 4) % QueueScan.Place.allCases.count]
        let parts = place == .results ? record.split(separator: 0, omittingEmptySubsequences: false).map(Array.init) : [record]
        let due: [Int64] = [.min, -1, 0, 1_700_000_000_000, .max]
        let entry = QueueScan.Entry(
            place: place, position: 1, due: place == .delayed ? due[record.count % due.count] : nil, worker: "w", stream: "1-1",
            content: parts)
        for key in [PushQuery.Key.token, .identifier, .apnsID, .trace] { _ = PushQuery(key, "ab").matches(entry) }
        try show(FindLine(list: "q", entry: entry).text(Redaction(isOn: choice & 8 != 0)))
        _ = FindLine(list: "q", entry: entry).object.line
        let line = JobLine(position: 1, due: due[record.count % due.count], job: WaitingJobs.job(ofDelayed: record))
        try show(line.text(Redaction(isOn: choice & 8 != 0)))
        _ = line.object(list: "q").line
    }

    private static func relay(_ record: [UInt8]) {
        let fields = record.split(separator: 0, omittingEmptySubsequences: false).map { RedisReply.string(Array($0)) }
        guard let entry = RelayEntry(.array([.string([49]), .array(fields)])) else { return }
        _ = RelayEntry.body([entry])
    }

    /// A line for a terminal. A tab between two tokens of JSON stays as it is.
    private static func show(_ lines: String...) throws {
        for line in lines {
            let hasControl = line.unicodeScalars.contains { $0.isUnprintable && $0 != "\t" }
            try BrokenPromise.unless(!hasControl, "a line for a terminal has a control character")
        }
    }
}

/// A settings file. Its paths lead nowhere.
enum SettingsFuzz {
    static func run(_ bytes: [UInt8]) throws {
        // A path below a missing folder names no file of this machine.
        guard let tree = try? JSONValue.parse(bytes), case .object(let members) = tree,
            !String(decoding: bytes, as: UTF8.self).contains("/")
        else { return }
        let file = SettingsFile(path: "/missing/settings.json") { $0 == "SET" ? "value" : nil }
        var reader = SettingsReader(file: file)
        do {
            let reading = try reader.read(members)
            for draft in reading.drafts { for key in SettingsTable.keys { _ = key.text(draft) } }
            try check(reading.settings)
        } catch let error as SettingsErrors {
            try BrokenPromise.unless(!error.lines.isEmpty, "settings are refused without a reason")
            for line in error.lines {
                let hasBreak = line.contains("\n") || line.contains("\r")
                try BrokenPromise.unless(!hasBreak, "a fault has several lines")
            }
        }
    }

    /// The sums that the daemon makes of settings.
    private static func check(_ settings: Settings) throws {
        try BrokenPromise.unless(!settings.lists.isEmpty, "settings without a list")
        for delay in settings.retryDelays + [settings.redis.lease, settings.drainTimeout] {
            try BrokenPromise.unless(delay >= .zero && delay <= .seconds(2_592_000), "a span of \(delay)")
        }
        for app in settings.apps {
            let pool = app.pool
            try BrokenPromise.unless((1...100).contains(pool.sessions) && pool.mostSessions <= 100, "a bad number of sessions")
            for failures in [0, 1, 62, 63, 64, 1000, .max] {
                _ = pool.dialBackoff.wait(afterFailures: failures, random: 0.99)
            }
        }
    }
}
