/// The jobs this worker holds, by id: from their claim until Redis has confirmed their settlement.
///
/// The chunks are in the order of their numbers. A chunk ends with its last job, and few are open at a time. It hashes nothing,
/// and the bytes are shared with the owner of the job, not copied.
struct Chunks {
    /// The level of a job that must be alone in its worker, because it may crash workers.
    static let isolated: UInt8 = 3
    /// The level of a job that was alone in a worker that died: it is not pushed again.
    static let suspect: UInt8 = 4

    /// Most chunks that one batch compacts: together they free more than the jobs that it settles have needed.
    private static let mostCompacted = 64

    private var numbers: [UInt64] = []
    private var chunks: [Chunk] = []
    /// The sizes of jobs that are too large: their bytes here are only the beginning.
    private var abridged: [ClaimID: Int] = [:]
    private var counts = InlineArray<5, Int>(repeating: 0)
    private(set) var count = 0
    /// Bytes of all jobs.
    private(set) var byteCount = 0

    var isEmpty: Bool { count == 0 }
    /// Whether there is a job that must be alone, or that was.
    var holdsIsolated: Bool { counts[Int(Self.isolated)] + counts[Int(Self.suspect)] > 0 }

    /// The number of held jobs that were in flight at this number of crashes.
    func countOfLevel(_ level: UInt8) -> Int { counts[Int(level)] }

    /// Holds the jobs of a new chunk.
    mutating func insert(
        _ jobs: [ClaimedJob], chunk number: UInt64, level: UInt8 = 0, isKept: Bool = true, rank: UInt64? = nil
    ) {
        if jobs.isEmpty { return }
        add(Chunk(jobs, level: level, isKept: isKept, rank: rank), number)
        for job in jobs { note(job, level: level) }
    }

    /// Holds a job that Redis has in flight; `nil` when it has no such chunk. Returns its level.
    mutating func insert(_ job: ClaimedJob) -> UInt8? {
        guard let index = index(of: job.id.chunk), chunks[index].job(at: job.id.place) == nil else { return nil }
        chunks[index].insert(job.bytes, at: job.id.place)
        note(job, level: chunks[index].level)
        return chunks[index].level
    }

    private mutating func note(_ job: ClaimedJob, level: UInt8) {
        if let size = job.fullSize { abridged[job.id] = size }
        count += 1
        counts[Int(level)] += 1
        byteCount += job.bytes.count
    }

    private mutating func add(_ chunk: Chunk, _ number: UInt64) {
        let place = numbers.last.map { $0 < number } ?? true ? numbers.count : numbers.firstIndex { $0 > number } ?? 0
        numbers.insert(number, at: place)
        chunks.insert(chunk, at: place)
    }

    /// Removes a job; `false` when it was not held.
    @discardableResult
    mutating func remove(_ id: ClaimID) -> Bool {
        guard let index = index(of: id.chunk), let job = chunks[index].remove(at: id.place) else { return false }
        byteCount -= job.count
        count -= 1
        counts[Int(chunks[index].level)] -= 1
        if !abridged.isEmpty { abridged[id] = nil }
        if chunks[index].isFinished { drop(at: index) }
        return true
    }

    private mutating func drop(at index: Int) {
        numbers.remove(at: index)
        chunks.remove(at: index)
    }

    func bytes(of id: ClaimID) -> [UInt8]? { index(of: id.chunk).flatMap { chunks[$0].job(at: id.place) } }

    func contains(_ id: ClaimID) -> Bool { bytes(of: id) != nil }

    /// Whether only the beginning of the job is here.
    func isAbridged(_ id: ClaimID) -> Bool { abridged[id] != nil }

    /// Whether Redis has the job in flight.
    func isKept(_ id: ClaimID) -> Bool { index(of: id.chunk).map { chunks[$0].isKept } ?? false }

    /// The position of a job in the flow of claims; 0 if it is unknown.
    func rank(of id: ClaimID) -> UInt64 { index(of: id.chunk).map { chunks[$0].rank(at: id.place) } ?? 0 }

    func level(of id: ClaimID) -> UInt8 { index(of: id.chunk).map { chunks[$0].level } ?? 0 }

    /// In the order of the claims.
    var ids: [ClaimID] { places(\.heldPlaces).flatMap { number, places in places.map { ClaimID(chunk: number, place: $0) } } }

    /// The number of positions is not 0.
    private func places(_ places: (Chunk) -> [Int]) -> [(chunk: UInt64, places: [Int])] {
        zip(numbers, chunks).map { ($0, places($1)) }.filter { !$0.1.isEmpty }
    }

    private func index(of number: UInt64) -> Int? {
        var (low, high) = (0, numbers.count)
        while low < high {
            let middle = (low + high) / 2
            if numbers[middle] < number { low = middle + 1 } else { high = middle }
        }
        return low < numbers.count && numbers[low] == number ? low : nil
    }

    // MARK: Redis

    /// The settlement of a job is sent.
    mutating func settle(_ id: ClaimID) {
        if let index = index(of: id.chunk) { chunks[index].settle(at: id.place) }
    }

    /// Returns the chunks whose settled jobs are to leave Redis, if all chunks have more than twice the bytes of the jobs in
    /// flight and one claim. From here on these chunks count as compacted.
    ///
    /// Those with the smallest share of jobs in flight come first, because Redis copies these jobs. A chunk is compacted when
    /// less than half of its bytes are in flight, so that all copies together have fewer bytes than the jobs that were claimed.
    mutating func compact() -> [UInt64] {
        var (inFlight, stored) = (0, 0)
        for index in chunks.indices {
            inFlight += chunks[index].inFlightBytes
            stored += chunks[index].storedBytes
        }
        if stored <= 2 * inFlight + ClaimSize.mostBytes { return [] }
        let wasteful = chunks.indices.filter { chunks[$0].storedBytes > 2 * chunks[$0].inFlightBytes }
        var compacted: [UInt64] = []
        for index in wasteful.sorted(by: { chunks[$0].inFlightShare < chunks[$1].inFlightShare }).prefix(Self.mostCompacted) {
            if stored <= 2 * inFlight + ClaimSize.mostBytes / 2 { break }
            stored -= chunks[index].storedBytes - chunks[index].inFlightBytes
            chunks[index].compact()
            compacted.append(numbers[index])
        }
        return compacted
    }

    /// Settles the jobs of a batch, and writes the entries that follow into it.
    mutating func address(_ batch: inout SettleBatch) {
        for id in batch.ids { settle(id) }
        batch.address(compacting: compact()) { entry(of: $0) }
    }

    /// The entry of a chunk in Redis after the last settlement that was sent: see `Chunk.entry`.
    func entry(of number: UInt64) -> [UInt8]? { index(of: number).flatMap { chunks[$0].entry } }

    /// Takes over which jobs Redis has in flight.
    mutating func compare(with entries: [UInt64: [UInt8]]) {
        for index in numbers.indices.reversed() {
            chunks[index].takeMarks(of: entries[numbers[index]])
            if chunks[index].isFinished { drop(at: index) }
        }
        for (number, entry) in entries where index(of: number) == nil {
            if let chunk = Chunk(entry: entry) { add(chunk, number) }
        }
    }

    /// The newest chunk that Redis has after the settlements that were sent.
    var newestChunk: UInt64? { chunks.indices.last { chunks[$0].inFlightCount > 0 }.map { numbers[$0] } }

    /// The jobs in flight that are not held.
    var unknown: [(chunk: UInt64, places: [Int])] { places(\.unknownPlaces) }

    /// The held jobs that are not in flight.
    var missing: [ClaimID] {
        places(\.missingPlaces).flatMap { number, places in places.map { ClaimID(chunk: number, place: $0) } }
    }

    /// Another worker has these chunks.
    mutating func leave(_ gone: Set<UInt64>) {
        for number in gone { if let index = index(of: number) { chunks[index].leave() } }
    }

    /// Prepares to put these held jobs, in the order of the claims, back into Redis. From here on they count as in flight.
    mutating func adopt(_ ids: [ClaimID]) -> [Adoption] {
        var adopted: [Adoption] = []
        for id in ids {
            guard let index = index(of: id.chunk), let bytes = chunks[index].job(at: id.place) else { continue }
            chunks[index].mark(id.place)
            let job = Adoption.Job(place: id.place, bytes: bytes, fullSize: abridged[id])
            if adopted.last?.chunk == id.chunk {
                adopted[adopted.count - 1].jobs.append(job)
            } else {
                let chunk = chunks[index]
                adopted.append(
                    Adoption(
                        chunk: id.chunk, level: chunk.level, positions: chunk.positions, rank: chunk.rankSuffix, jobs: [job]))
            }
        }
        return adopted
    }
}

/// The jobs of one claim: those that this worker holds, and those that Redis has in flight for it.
///
/// Redis has a list with all jobs of the chunk, and an entry that marks the jobs in flight (see `Keys.chunks`). The marks here
/// are those of the entry after the last settlement that was sent.
struct Chunk {
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
    /// The rank before its first job; `nil` if it is unknown.
    private let firstRank: UInt64?

    /// A chunk that was claimed.
    ///
    /// - Parameter isKept: whether Redis keeps it.
    init(_ jobs: [ClaimedJob], level: UInt8, isKept: Bool, rank: UInt64? = nil) {
        self.level = level
        firstRank = rank
        self.jobs = jobs.map { .some($0.bytes) }
        heldCount = jobs.count
        inFlightCount = isKept ? jobs.count : 0
        marks = Array(repeating: ChunkEntry.mark, count: inFlightCount)
        if isKept { inFlightBytes = jobs.reduce(0) { $0 + $1.bytes.count } }
        storedBytes = inFlightBytes
    }

    /// A chunk that only Redis knows; `nil` for an entry of another form.
    init?(entry: [UInt8]) {
        guard entry.count > 2, entry[1] == UInt8(ascii: ":"), (UInt8(ascii: "0")...UInt8(ascii: "4")).contains(entry[0]) else {
            return nil
        }
        let end = entry.firstIndex(where: ChunkEntry.digits.contains) ?? entry.count
        guard (3...ChunkEntry.mostJobs + 2).contains(end) else { return nil }
        level = entry[0] - UInt8(ascii: "0")
        jobs = Array(repeating: nil, count: end - 2)
        marks = Array(entry[2..<end])
        let digits = entry[end...].map { $0 &- ChunkEntry.digits.lowerBound &+ UInt8(ascii: "0") }
        firstRank = UInt64(String(decoding: digits, as: UTF8.self)).flatMap { $0 < 1 << 53 ? $0 : nil }
        inFlightCount = marks.count { $0 == ChunkEntry.mark }
    }

    /// Whether Redis has the jobs in flight.
    var isKept: Bool { !marks.isEmpty }

    /// Nothing is left of it, here and in Redis.
    var isFinished: Bool { heldCount == 0 && inFlightCount == 0 }

    var heldPlaces: [Int] { jobs.indices.filter { jobs[$0] != nil } }

    /// The positions of the jobs in flight that are not held.
    var unknownPlaces: [Int] { marks.indices.filter { marks[$0] == ChunkEntry.mark && jobs[$0] == nil } }

    /// The positions of the held jobs that are not in flight.
    var missingPlaces: [Int] { marks.indices.filter { marks[$0] != ChunkEntry.mark && jobs[$0] != nil } }

    /// Returns nothing when no job is left in flight, and `nil` where Redis keeps no chunk.
    var entry: [UInt8]? {
        if !isKept { return nil }
        return inFlightCount == 0 ? [] : [level + UInt8(ascii: "0"), UInt8(ascii: ":")] + marks + rankSuffix
    }

    /// The end of its entry, which says the rank.
    var rankSuffix: [UInt8] { firstRank.map(ChunkEntry.rank) ?? [] }

    func rank(at place: Int) -> UInt64 { firstRank.map { $0 + UInt64(place) + 1 } ?? 0 }

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
        guard marks.indices.contains(place), marks[place] == ChunkEntry.mark else { return }
        marks[place] = ChunkEntry.settled
        inFlightCount -= 1
        inFlightBytes -= jobs[place]?.count ?? 0
        if inFlightCount == 0 { storedBytes = 0 }
    }

    var inFlightShare: Double { Double(inFlightBytes) / Double(max(1, storedBytes)) }

    /// From here on the list has only the jobs in flight.
    mutating func compact() { storedBytes = inFlightBytes }

    private mutating func countBytes() {
        inFlightBytes = marks.indices.reduce(0) { $0 + (marks[$1] == ChunkEntry.mark ? jobs[$1]?.count ?? 0 : 0) }
    }

    /// Takes over the marks of Redis; `nil`: Redis has no such chunk.
    mutating func takeMarks(of entry: [UInt8]?) {
        for place in marks.indices {
            marks[place] = entry.map { place + 2 < $0.count ? $0[place + 2] : ChunkEntry.settled } ?? ChunkEntry.settled
        }
        inFlightCount = marks.count { $0 == ChunkEntry.mark }
        countBytes()
        if inFlightCount == 0 { storedBytes = 0 }
    }

    /// Redis does not keep it for this worker any more: another one has it.
    mutating func leave() { (marks, inFlightCount, inFlightBytes, storedBytes) = ([], 0, 0, 0) }

    /// The number of positions in Redis.
    var positions: Int { marks.count }

    /// Marks the job at this position as in flight again.
    mutating func mark(_ place: Int) {
        guard marks.indices.contains(place), marks[place] != ChunkEntry.mark else { return }
        marks[place] = ChunkEntry.mark
        inFlightCount += 1
        inFlightBytes += jobs[place]?.count ?? 0
        storedBytes = max(storedBytes, inFlightBytes)
    }
}
