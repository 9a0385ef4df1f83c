import JSONBytes

@testable import RedisQueue
@testable import gaplessd

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
            try show(PauseNote(QueuePause(app: "a", left: left, record: record)).scopedSentence.printable)
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
        let app = AppSelection("a", AppRoutes(names: [nil, "a"], topics: ["t", nil], certified: [[], []]))
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
