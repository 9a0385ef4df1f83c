import Platform
import PushPool
import Testing

@testable import gaplessd

@Suite("The memory of device tokens")
struct TokenMemoryTests {
    private let now = Instant.now
    private let key = TokenMemory.Key(app: 0, token: "0A1b")
    private var memory = TokenMemory()

    @Test mutating func `a token with too many requests is paused until shortly after its retry`() {
        memory.failed(key, on: SessionID(1), delay: .seconds(60), pauses: true, now: now)
        #expect(memory.hasPauses(now: now))
        #expect(memory.pause(key, now: now + .seconds(20)) == .seconds(40) + TokenMemory.distance)
        #expect(memory.pause(key, now: now + .seconds(60)) == nil)
        #expect(!memory.hasPauses(now: now + .seconds(60)))
    }

    @Test mutating func `upper and lower case are the same token, and each app has its own tokens`() {
        memory.failed(key, on: SessionID(1), delay: .seconds(60), pauses: true, now: now)
        #expect(memory.pause(TokenMemory.Key(app: 0, token: "0a1B"), now: now) != nil)
        #expect(memory.pause(TokenMemory.Key(app: 1, token: "0a1b"), now: now) == nil)
        #expect(memory.pause(TokenMemory.Key(app: 0, token: "0a1c"), now: now) == nil)
    }

    @Test mutating func `a failure of another kind neither begins nor ends a pause`() {
        memory.failed(key, on: SessionID(1), delay: .seconds(60), pauses: false, now: now)
        #expect(!memory.hasPauses(now: now))
        #expect(memory.pause(key, now: now) == nil)
        memory.failed(key, on: SessionID(1), delay: .seconds(60), pauses: true, now: now)
        memory.failed(key, on: SessionID(2), delay: .seconds(1), pauses: false, now: now)
        #expect(memory.pause(key, now: now + .seconds(50)) != nil)
    }

    @Test mutating func `a retry avoids the session that failed its token last`() {
        #expect(memory.session(toAvoid: key) == nil)
        memory.failed(key, on: SessionID(1), delay: .seconds(1), pauses: false, now: now)
        memory.failed(key, on: SessionID(7), delay: .seconds(1), pauses: false, now: now)
        #expect(memory.session(toAvoid: key) == SessionID(7))
    }

    @Test mutating func `the memory is bounded, drops the oldest entries first, and ends every entry in time`() {
        for number in 0..<TokenMemory.most + 500 {
            let key = TokenMemory.Key(app: 0, token: String(number))
            memory.failed(key, on: SessionID(1), delay: .seconds(60), pauses: true, now: now)
        }
        #expect(memory.count == TokenMemory.most)
        #expect(memory.pause(TokenMemory.Key(app: 0, token: "499"), now: now) == nil)
        #expect(memory.pause(TokenMemory.Key(app: 0, token: "500"), now: now) != nil)
        memory.failed(key, on: SessionID(1), delay: .seconds(1), pauses: false, now: now + .seconds(121))
        #expect(memory.count == 1)
    }

    @Test mutating func `a million failures of one token take no more memory than the documented entries`() {
        memory.failed(TokenMemory.Key(app: 0, token: "ff"), on: SessionID(1), delay: .seconds(900), pauses: false, now: now)
        for _ in 0..<1_000_000 { memory.failed(key, on: SessionID(1), delay: .seconds(1), pauses: false, now: now) }
        #expect(memory.count == 2)
        #expect(memory.records <= 2 * TokenMemory.most)
    }
}

@Suite("The job that holds its app")
struct HoldCulpritsTests {
    private var culprits = HoldCulprits()

    @Test mutating func `is at fault after it was twice the only rejected one`() {
        for _ in 0..<2 {
            #expect(culprits.rejected(1) == false)
            #expect(culprits.rejected(1) == false, "a probe with the same job changes nothing")
            culprits.holdEnded(by: 2)
        }
        #expect(culprits.rejected(1) == true)
        #expect(culprits.rejected(1) == false, "a copy of the job starts again")
    }

    @Test mutating func `is not at fault if others were rejected, too`() {
        for _ in 0..<9 {
            for job in [1, 2, 1] { #expect(culprits.rejected(job) == false) }
            culprits.holdEnded(by: 3)
        }
    }

    @Test mutating func `is not at fault if it was accepted, or if no other was accepted`() {
        for _ in 0..<9 {
            #expect(culprits.rejected(1) == false)
            culprits.holdEnded(by: 1)
            #expect(culprits.rejected(1) == false)
            culprits.forgetRejections()
        }
        for accepted in [2, 1, 2] {
            #expect(culprits.rejected(1) == false)
            culprits.holdEnded(by: accepted)
        }
        #expect(culprits.rejected(1) == false, "the acceptance removed the first strike")
    }

    @Test mutating func `is remembered in bounded memory`() {
        for job in 0...HoldCulprits.capacity {
            for _ in 0..<2 {
                #expect(culprits.rejected(job) == false)
                culprits.holdEnded(by: -1)
            }
        }
        #expect(culprits.rejected(0) == false, "the newest job replaced the oldest")
        for job in [1, HoldCulprits.capacity] { #expect(culprits.rejected(job) == true) }
    }
}
