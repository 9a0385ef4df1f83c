import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("A slow link to Redis")
struct SlowLinkTests {
    let server: RedisServer
    let proxy: FaultProxy

    init() throws {
        server = try RedisServer()
        proxy = try FaultProxy(toUnixSocket: server.socketPath, seed: 1)
    }

    private var settings: QueueSettings {
        var settings = QueueSettings(list: "jobs", server: .tcp(host: "127.0.0.1", port: proxy.port))
        settings.timeout = .milliseconds(500)
        return settings
    }

    @Test func `jobs arrive although the reply to a claim takes longer than the limit for a reply`() throws {
        try server.push((0..<300).map { "\($0)" + String(repeating: "x", count: 2000) })
        proxy.behaviour.bytesPerSecond = 400_000
        let worker = Worker(settings)
        var seen: Set<[UInt8]> = []
        worker.onJob = { job in
            seen.insert(job.bytes)
            return Settlement(id: job.id, effect: .ack)
        }
        try worker.run("all acknowledged") { try seen.count == 300 && server.status().counters[.sent] == 300 }
        proxy.behaviour = .init()
        worker.stop()
        #expect(try server.status().unexplained == 0)
    }

    /// Such a job cannot be claimed in smaller pieces.
    @Test func `a job arrives although it takes longer than the limit for a reply`() throws {
        let job = String(repeating: "x", count: 800_000)
        try server.push([job])
        proxy.behaviour.bytesPerSecond = 400_000
        let worker = Worker(settings)
        worker.run("claimed") { !worker.jobs.isEmpty }
        #expect(worker.texts == [job])
        proxy.behaviour = .init()
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().unexplained == 0)
    }

    @Test func `a claim gets smaller while its reply takes long, and larger while it does not`() {
        var size = ClaimSize()
        let (first, half) = (Claim.firstBytes, Claim.firstBytes / 2)
        size.claimed(0, within: .milliseconds(1001))
        #expect(size.bytes == half)
        size.claimed(first, within: .milliseconds(500))
        #expect(size.bytes == half)
        size.claimed(half / 4, within: .milliseconds(10))
        #expect(size.bytes == half, "a small reply says nothing about a large one")
        for _ in 0..<5 { size.claimed(first, within: .milliseconds(10)) }
        #expect(size.bytes == ClaimSize.mostBytes)
        for _ in 0..<20 { size.claimLost() }
        #expect(size.bytes == ClaimSize.leastBytes)
    }

    @Test func `jobs that could not be fetched are fetched in smaller pieces`() {
        var machine = MachineFixture()
        machine.serve()
        machine.offer(250)
        machine.advance()
        var pieces: [[Int]] = []
        for attempt in 1...3 {
            machine.lost("the connection breaks before the fetch ends", at: start)
            machine.advance(to: start + Duration.seconds(60 * attempt))
            machine.effects()
            let entry = "0:" + String(repeating: "1", count: 200)
            machine.register(counter: Int64(attempt) + 1, isExpected: true, chunks: ["1": entry])
            pieces.append(
                machine.effects().compactMap { if case .call(.fetch(let fetch)) = $0 { fetch.places.count } else { nil } })
        }
        #expect(pieces == [[200], [125, 75], [62, 62, 62, 14]])
    }

    @Test func `beats go out while the reply to an earlier one is on its way`() {
        var machine = MachineFixture()
        machine.serve()
        var beats = 0
        for second in 1...9 {
            machine.advance(to: start + Duration.seconds(second))
            beats += machine.effects().count { if case .call(.beat) = $0 { true } else { false } }
        }
        #expect(beats == 3)
    }
}
