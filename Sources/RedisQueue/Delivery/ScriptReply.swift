/// The replies of the scripts, read and checked. A reply of another form is `nil`.
enum ScriptReply {
    /// The time until the first job in `delayed` is due.
    enum NextDue: Equatable {
        /// The script has not looked at `delayed`.
        case unknown
        case never
        case after(Duration)

        init(_ milliseconds: Int64) {
            switch milliseconds {
            case -1: self = .never
            case ..<0: self = .unknown
            default: self = .after(.milliseconds(min(milliseconds, 3_600_000)))  // No script replies more.
            }
        }
    }

    typealias Counters = [(worker: String, counter: Int64)]

    /// A sorted set's scores are doubles, sent as text; heartbeat counters are whole numbers.
    private static func counters(_ items: ArraySlice<RedisReply>) -> Counters {
        var counters: Counters = []
        var rest = items
        while let worker = rest.popFirst()?.text, let score = rest.popFirst()?.text {
            if let counter = Int64(score) { counters.append((worker, counter)) }
        }
        return counters
    }

    /// Numbers are exact in Lua below 2^53, and below it a `ClaimID` cannot overflow.
    private static let leastBadNumber: UInt64 = 1 << 53

    /// Fields that are not the number of a chunk are ignored.
    private static func chunks(_ reply: RedisReply) -> [UInt64: [UInt8]]? {
        guard var rest = reply.items?[...] else { return nil }
        var chunks: [UInt64: [UInt8]] = [:]
        while let field = rest.popFirst()?.text, let entry = rest.popFirst()?.bytes {
            if let number = UInt64(field), number < leastBadNumber { chunks[number] = entry }
        }
        return chunks
    }

    /// A job, or the size and the beginning of a job that is too large.
    struct JobBytes {
        var bytes: [UInt8]
        var fullSize: Int?

        init?(_ item: RedisReply) {
            if let bytes = item.bytes {
                self.bytes = bytes
                return
            }
            guard let items = item.items, items.count == 2, let size = items[0].count, let head = items[1].bytes else {
                return nil
            }
            (bytes, fullSize) = (head, size)
        }
    }

    enum Registration {
        case foreign(Foreign)
        case registered(Registered)

        init?(_ items: [RedisReply]) {
            if items.count == 5, items[0].text == "NUMBER" {
                guard let number = items[1].text, let epoch = items[2].text, let settled = items[3].text,
                    let chunks = ScriptReply.chunks(items[4])
                else { return nil }
                self = .foreign(Foreign(number: number, epoch: epoch, settled: UInt64(settled), chunks: chunks))
                return
            }
            guard items.count >= 10, let settled = items[1].text.flatMap({ Int64($0) }), let epoch = items[2].text,
                let recovered = items[3].integer.flatMap(RecoveredJobs.Kind.init), let (due, pauses) = QueuePause.split(items[4]),
                let deadLetters = items[5].count, let feedback = items[6].count, let chunks = ScriptReply.chunks(items[7]),
                let taken = items[8].text.map(TakenChunks.init), let jobs = items[9].count
            else { return nil }
            self = .registered(
                Registered(
                    settled: UInt64(exactly: settled), epoch: epoch, recovered: recovered, due: NextDue(due),
                    pauses: pauses, asides: Set(QueuePause.sideLists(items[4]).keys),
                    lengths: [.deadLetters: deadLetters, .feedback: feedback],
                    chunks: chunks, taken: taken, jobs: jobs, counters: counters(items.dropFirst(10))))
        }
    }

    /// The record of this worker that another process uses, or that is damaged.
    struct Foreign {
        /// For the log.
        var number: String
        /// These are as in `Registered`.
        var epoch: String
        var settled: UInt64?
        var chunks: [UInt64: [UInt8]]
    }

    /// The chunks of this worker that another one has taken over.
    enum TakenChunks: Equatable {
        case these(Set<UInt64>)
        /// This worker was taken over by one of 0.2, which does not record chunks.
        case unknown

        init(_ text: String) {
            self = text == "*" ? .unknown : .these(Set(text.split(separator: ",").compactMap { UInt64($0) }))
        }
    }

    struct Registered {
        /// The last settlement that Redis has stored for this worker, if any.
        var settled: UInt64?
        /// The mark of the data set: another one after Redis was emptied.
        var epoch: String
        var recovered: RecoveredJobs.Kind
        var due: NextDue
        var pauses: [QueuePause]
        /// The apps whose side lists have jobs.
        var asides: Set<String>
        /// The numbers of records; 0 where there is a maximum.
        var lengths: [RecordList: Int]
        /// The entries of the worker's chunks, by their numbers.
        var chunks: [UInt64: [UInt8]]
        var taken: TakenChunks
        /// The number of jobs that wait or were ever claimed in this data set.
        var jobs: Int
        var counters: Counters
    }

    struct Adopted {
        /// The positions of jobs that are too large and were not found.
        var lost: [Int]

        init?(_ items: [RedisReply]) {
            guard items.count >= 2, items[0].count != nil, items[1].count != nil else { return nil }
            lost = items.dropFirst(2).compactMap(\.count)
        }
    }

    struct Beat {
        var recovered: RecoveredJobs.Kind
        var due: NextDue
        var pauses: [QueuePause]
        var asides: Set<String>
        var counters: Counters

        init?(_ items: [RedisReply]) {
            guard items.count >= 2, let recovered = items[0].integer.flatMap(RecoveredJobs.Kind.init),
                let (due, pauses) = QueuePause.split(items[1])
            else { return nil }
            (self.recovered, self.due, self.pauses) = (recovered, NextDue(due), pauses)
            asides = Set(QueuePause.sideLists(items[1]).keys)
            counters = ScriptReply.counters(items.dropFirst(2))
        }
    }

    struct Claim {
        var isDrained: Bool
        var pauses: [QueuePause]
        /// The number of jobs in the new chunk.
        var count: Int
        /// The number of crashes at which they were in flight.
        var level: UInt8
        /// The job is too large, and its chunk has the next number.
        var isLarge: Bool
        /// The script has copied the jobs, because Redis refuses SORT or MEMORY.
        var isSlow: Bool
        var recovered: RecoveredJobs.Kind

        init?(_ items: [RedisReply]) {
            guard items.count == 5, let (drained, pauses) = QueuePause.split(items[0]), let count = items[1].count,
                count <= Chunk.mostJobs, let level = items[2].integer, (0..<4).contains(level), let flags = items[3].integer,
                let recovered = items[4].integer.flatMap(RecoveredJobs.Kind.init)
            else { return nil }
            (isDrained, self.pauses, self.count, self.level) = (drained == 1, pauses, count, UInt8(level))
            (isLarge, isSlow, self.recovered) = (flags & 1 != 0, flags & 2 != 0, recovered)
        }
    }

    /// The change of a list of records by a batch.
    struct Growth {
        /// The number of records that were dropped because of the maximum.
        var trimmed = 0
        /// 0: none was added, or there is a maximum.
        var length = 0
    }

    struct Settled {
        var due: NextDue
        var deadLetters: Growth
        var feedback = Growth()

        init?(_ items: [RedisReply]) {
            guard items.count >= 3, let trimmed = items[1].count, let due = items[2].integer else { return nil }
            self.due = NextDue(due)
            deadLetters = Growth(trimmed: trimmed, length: items.count > 3 ? items[3].count ?? 0 : 0)
            if items.count > 5 { feedback = Growth(trimmed: items[4].count ?? 0, length: items[5].count ?? 0) }
        }
    }

    struct Promoted {
        var count: Int64
        var due: NextDue

        init?(_ items: [RedisReply]) {
            guard items.count == 2, let count = items[0].integer, let due = items[1].integer else { return nil }
            (self.count, self.due) = (count, NextDue(due))
        }
    }

    /// The chunks of a dead worker whose lists the call has to name.
    static func chunksToReap(_ items: [RedisReply]) -> [String]? {
        items.first?.text == "LISTS" ? items.dropFirst().compactMap(\.text) : nil
    }

    struct Reaped {
        /// `nil`: the worker was seen alive, and nothing was done.
        var moved: Int?
        var recovered: RecoveredJobs.Kind
        var suspects: [JobBytes]

        init?(_ items: [RedisReply]) {
            guard items.count >= 2, let moved = items[0].integer,
                let recovered = items[1].integer.flatMap(RecoveredJobs.Kind.init)
            else { return nil }
            suspects = items.dropFirst(2).compactMap(JobBytes.init)
            if suspects.count != items.count - 2 || suspects.count > Chunk.mostJobs { return nil }
            (self.moved, self.recovered) = (moved < 0 ? nil : items[0].count, recovered)
        }
    }
}
