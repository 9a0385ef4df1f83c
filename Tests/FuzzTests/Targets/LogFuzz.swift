import JSONBytes

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
