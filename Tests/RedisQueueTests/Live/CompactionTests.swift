import Harness
import Platform
import Testing

@testable import RedisQueue

/// Redis keeps the settled jobs of a chunk until the last one is settled, or until they need too much memory.
@Suite("The bytes of jobs in flight")
struct CompactionTests {
    private let server: RedisServer
    private let keys = Keys(list: "jobs")

    init() throws { server = try RedisServer() }

    private func stranger(_ name: String) -> WorkerName { WorkerName(text: name, host: "elsewhere", pid: 1) }

    /// A worker that holds the first and the last job of each of many chunks, and their texts.
    private func makeWorker() throws -> (worker: Worker, texts: [String]) {
        let jobs = (0..<3000).map { "\($0) " + String(repeating: "x", count: 4000) }
        try server.push(jobs)
        var settings = server.settings()
        settings.lease = .seconds(1)
        let worker = Worker(settings, worker: stranger("w"))
        worker.places = jobs.count
        worker.run("all jobs") { worker.jobs.count == jobs.count }
        worker.places = 0
        let last = Dictionary(worker.jobs.map { ($0.id.chunk, $0.id.place) }) { max($0, $1) }
        for job in worker.jobs where job.id.place != 0 && job.id.place != last[job.id.chunk] { worker.settle(job, .ack) }
        worker.run("the others are settled") { !worker.queueHasWork }
        return (worker, worker.texts)
    }

    private var storedBytes: Int {
        get throws {
            let lists = try server.ask("KEYS", keys.chunks("w") + ":*").items?.compactMap(\.text) ?? []
            return try lists.reduce(0) { $0 + (try server.ask("MEMORY", "USAGE", $1, "SAMPLES", "0").count ?? 0) }
        }
    }

    @Test func `are at most twice their own and one claim, although each chunk has jobs left`() throws {
        let (worker, texts) = try makeWorker()
        #expect(texts.count >= 20)
        #expect(try storedBytes <= 2 * texts.reduce(0) { $0 + $1.utf8.count } + ClaimSize.mostBytes)
        #expect(try server.status().inFlight == texts.count)
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == 3000)
        #expect(try server.status().unexplained == 0)
        #expect(try server.ask("KEYS", "*").items?.compactMap(\.text) == [keys.stats])
    }

    @Test func `stay at their places: they are given back, and taken over from a dead worker`() throws {
        let (worker, texts) = try makeWorker()
        let returned = worker.jobs.filter { $0.id.place == 0 }.map { String(decoding: $0.bytes, as: UTF8.self) }
        for job in worker.jobs where job.id.place == 0 { worker.settle(job, .release(toTail: false)) }
        worker.run("half of them are returned") { !worker.queueHasWork }
        #expect(try server.list("jobs") == returned)
        var settings = server.settings()
        settings.lease = .seconds(1)
        let heir = Worker(settings)
        heir.run("all") { heir.jobs.count == texts.count }
        #expect(Set(heir.texts) == Set(texts))
        heir.acknowledgeAll()
        heir.stop()
        #expect(try server.status().unexplained == 0)
    }
}

@Suite("Compaction of chunks")
struct CompactionDecisionTests {
    private var held = Chunks()

    private mutating func insert(chunk: UInt64, size: Int = 4000) {
        let jobs = (0..<250).map { ClaimedJob(id: ClaimID(chunk: chunk, place: $0), bytes: Array(repeating: 1, count: size)) }
        held.insert(jobs, chunk: chunk)
    }

    private mutating func settle(_ places: some Sequence<Int>, of chunk: UInt64) -> SettleBatch {
        var batch = SettleBatch()
        for place in places { batch.addAcknowledgement(ClaimID(chunk: chunk, place: place)) }
        held.address(&batch)
        for place in places { held.remove(ClaimID(chunk: chunk, place: place)) }
        return batch
    }

    @Test mutating func `the chunks with the fewest jobs in flight are compacted, once, and only if the bytes are too many`() {
        for chunk in UInt64(1)...3 { insert(chunk: chunk) }
        #expect(settle(0..<200, of: 2).compacted == [])
        #expect(settle(1..<250, of: 1).compacted == [])
        let batch = settle(100..<250, of: 3)
        #expect(batch.compacted == [1, 2])
        #expect(Array(batch.lists) == [1, 2])
        #expect(settle(0..<50, of: 3).compacted == [])
    }

    /// Redis may not have received it.
    @Test mutating func `a batch that is sent again compacts the same chunks`() {
        for chunk in UInt64(1)...3 { insert(chunk: chunk) }
        var batch = SettleBatch()
        for chunk in UInt64(1)...3 {
            for place in 1..<250 { batch.addAcknowledgement(ClaimID(chunk: chunk, place: place)) }
        }
        held.address(&batch)
        let chunks = batch.compacted
        #expect(!chunks.isEmpty)
        held.compare(with: [:])
        let entry = bytes("0:" + String(repeating: "1", count: 250))
        held.compare(with: [1: entry, 2: entry, 3: entry])
        held.address(&batch)
        #expect(Array(batch.compacted.prefix(chunks.count)) == chunks)
    }

    @Test(arguments: [300, 4000], [400, 2000])
    mutating func `chunks that end soon are not compacted`(size: Int, inFlight: Int) {
        let seed = UInt64.random(in: 0...999_999)
        var random = SeededGenerator(seed: seed)
        var open: [ClaimID] = []
        var compacted = 0
        for chunk in UInt64(1)...40 {
            insert(chunk: chunk, size: size)
            open += (0..<250).map { ClaimID(chunk: chunk, place: $0) }
            while open.count > inFlight {
                var batch = SettleBatch()
                // Responses come in the order of the requests, except for some.
                for _ in 0..<25 {
                    batch.addAcknowledgement(open.remove(at: .random(in: 0..<min(open.count, 20), using: &random)))
                }
                held.address(&batch)
                for id in batch.ids { held.remove(id) }
                compacted += batch.compacted.count
            }
        }
        #expect(compacted == 0, "seed \(seed)")
    }
}
