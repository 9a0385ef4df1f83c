/// The jobs of one claim: those that this worker holds, and those that Redis has in flight for it.
///
/// Redis has a list with all jobs of the chunk, and an entry that marks the jobs in flight (see `Keys.chunks`). The marks here
/// are those of the entry after the last settlement that was sent.
struct Chunk {
    static let mostJobs = 250
    static let mark = UInt8(ascii: "1")
    private static let settled = UInt8(ascii: "0")

    /// The number of crashes at which the jobs were in flight.
    let level: UInt8
    /// `nil` for a job that is not held.
    private var jobs: [[UInt8]?]
    /// Empty where Redis keeps no chunk: `at_most_once`, except for suspects.
    private var marks: [UInt8]
    private(set) var heldCount = 0
    private(set) var inFlightCount = 0
    /// The bytes of the jobs in flight, as far as they are known.
    private(set) var inFlightBytes = 0
    /// The bytes in the list of the chunk: also of settled jobs, until it is compacted.
    private(set) var storedBytes = 0

    /// A chunk that was claimed.
    ///
    /// - Parameter isKept: whether Redis keeps it.
    init(_ jobs: [ClaimedJob], level: UInt8, isKept: Bool) {
        self.level = level
        self.jobs = jobs.map { .some($0.bytes) }
        heldCount = jobs.count
        inFlightCount = isKept ? jobs.count : 0
        marks = Array(repeating: Chunk.mark, count: inFlightCount)
        if isKept { inFlightBytes = jobs.reduce(0) { $0 + $1.bytes.count } }
        storedBytes = inFlightBytes
    }

    /// A chunk that only Redis knows; `nil` for an entry of another form.
    init?(entry: [UInt8]) {
        guard (3...Chunk.mostJobs + 2).contains(entry.count), entry[1] == UInt8(ascii: ":"),
            (UInt8(ascii: "0")...UInt8(ascii: "4")).contains(entry[0])
        else { return nil }
        level = entry[0] - UInt8(ascii: "0")
        jobs = Array(repeating: nil, count: entry.count - 2)
        marks = Array(entry[2...])
        inFlightCount = marks.count { $0 == Chunk.mark }
    }

    /// Whether Redis has the jobs in flight.
    var isKept: Bool { !marks.isEmpty }

    /// Nothing is left of it, here and in Redis.
    var isFinished: Bool { heldCount == 0 && inFlightCount == 0 }

    var heldPlaces: [Int] { jobs.indices.filter { jobs[$0] != nil } }

    /// The positions of the jobs in flight that are not held.
    var unknownPlaces: [Int] { marks.indices.filter { marks[$0] == Chunk.mark && jobs[$0] == nil } }

    /// The positions of the held jobs that are not in flight.
    var missingPlaces: [Int] { marks.indices.filter { marks[$0] != Chunk.mark && jobs[$0] != nil } }

    /// Returns nothing when no job is left in flight, and `nil` where Redis keeps no chunk.
    var entry: [UInt8]? {
        if !isKept { return nil }
        return inFlightCount == 0 ? [] : [level + UInt8(ascii: "0"), UInt8(ascii: ":")] + marks
    }

    func job(at place: Int) -> [UInt8]? { jobs.indices.contains(place) ? jobs[place] : nil }

    /// Holds a job that Redis has in flight.
    mutating func insert(_ job: [UInt8], at place: Int) {
        if jobs[place] == nil { heldCount += 1 }
        jobs[place] = .some(job)
        countBytes()
        storedBytes = max(storedBytes, inFlightBytes)
    }

    /// Removes a job that is held.
    mutating func remove(at place: Int) -> [UInt8]? {
        guard jobs.indices.contains(place), let job = jobs[place].take() else { return nil }
        heldCount -= 1
        return job
    }

    /// The settlement of a job is sent.
    mutating func settle(at place: Int) {
        guard marks.indices.contains(place), marks[place] == Chunk.mark else { return }
        marks[place] = Chunk.settled
        inFlightCount -= 1
        inFlightBytes -= jobs[place]?.count ?? 0
        if inFlightCount == 0 { storedBytes = 0 }
    }

    var inFlightShare: Double { Double(inFlightBytes) / Double(max(1, storedBytes)) }

    /// From here on the list has only the jobs in flight.
    mutating func compact() { storedBytes = inFlightBytes }

    private mutating func countBytes() {
        inFlightBytes = marks.indices.reduce(0) { $0 + (marks[$1] == Chunk.mark ? jobs[$1]?.count ?? 0 : 0) }
    }

    /// Takes over the marks of Redis; `nil`: Redis has no such chunk.
    mutating func takeMarks(of entry: [UInt8]?) {
        for place in marks.indices {
            marks[place] = entry.map { place + 2 < $0.count ? $0[place + 2] : Chunk.settled } ?? Chunk.settled
        }
        inFlightCount = marks.count { $0 == Chunk.mark }
        countBytes()
        if inFlightCount == 0 { storedBytes = 0 }
    }

    /// Redis does not keep it for this worker any more: another one has it.
    mutating func leave() { (marks, inFlightCount, inFlightBytes, storedBytes) = ([], 0, 0, 0) }

    /// The number of positions in Redis.
    var positions: Int { marks.count }

    /// Marks the job at this position as in flight again.
    mutating func mark(_ place: Int) {
        guard marks.indices.contains(place), marks[place] != Chunk.mark else { return }
        marks[place] = Chunk.mark
        inFlightCount += 1
        inFlightBytes += jobs[place]?.count ?? 0
        storedBytes = max(storedBytes, inFlightBytes)
    }
}
