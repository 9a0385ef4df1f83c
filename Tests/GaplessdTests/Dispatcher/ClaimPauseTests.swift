import RedisQueue
import SystemTime
import Testing

@testable import gaplessd

@Suite("The pause between claims of jobs of held apps")
struct ClaimPauseTests {
    private var pause = ClaimPause()
    private let start = Instant.now

    private func jobs(_ numbers: Range<Int>) -> [ClaimedJob] {
        numbers.map { ClaimedJob(id: ClaimID(UInt64($0)), bytes: Array("job \($0)".utf8)) }
    }

    @Test mutating func `there is none if every job was placed`() {
        #expect(pause.claimed(placed: 250, givenBack: [], now: start) == nil)
    }

    @Test mutating func `at most 100,000 jobs per second rotate until the whole list was seen`() {
        for claim in 0..<400 {
            let numbers = claim * 250..<(claim + 1) * 250
            #expect(pause.claimed(placed: 0, givenBack: jobs(numbers), now: start) == .microseconds(2500))
        }
        // The first of them comes round.
        #expect(pause.claimed(placed: 0, givenBack: jobs(0..<250), now: start + .seconds(2)) == .seconds(2))
        #expect(pause.claimed(placed: 0, givenBack: jobs(250..<500), now: start + .seconds(4)) == .microseconds(2500))
    }

    @Test mutating func `more jobs than places are claimed while none can be placed`() {
        #expect(pause.places(4) == 4)
        _ = pause.claimed(placed: 0, givenBack: jobs(0..<4), now: start)
        #expect(pause.places(4) == 250 && pause.places(2000) == 2000)
        #expect(pause.places(0) == 0)
        _ = pause.claimed(placed: 2, givenBack: jobs(4..<200), now: start)
        #expect(pause.places(4) == 4)
    }

    @Test mutating func `a short list is looked through four times per second, a long one every five seconds`() {
        _ = pause.claimed(placed: 0, givenBack: jobs(0..<3), now: start)
        #expect(pause.claimed(placed: 0, givenBack: jobs(0..<3), now: start) == .milliseconds(250))
        _ = pause.claimed(placed: 0, givenBack: jobs(0..<3), now: start)
        #expect(pause.claimed(placed: 0, givenBack: jobs(0..<3), now: start + .seconds(60)) == .seconds(5))
    }

    @Test mutating func `a job of another app restarts the rotation`() {
        _ = pause.claimed(placed: 0, givenBack: jobs(0..<10), now: start)
        #expect(pause.claimed(placed: 1, givenBack: jobs(0..<10), now: start) == .microseconds(100))
        #expect(pause.claimed(placed: 0, givenBack: jobs(0..<10), now: start) == .microseconds(100))
    }

    @Test mutating func `a claim of placed jobs alone ends the rotation, too`() {
        _ = pause.claimed(placed: 0, givenBack: jobs(0..<250), now: start)
        #expect(pause.claimed(placed: 250, givenBack: [], now: start) == nil)
        #expect(pause.places(4) == 4)
        _ = pause.claimed(placed: 0, givenBack: jobs(900..<903), now: start)
        #expect(pause.claimed(placed: 0, givenBack: jobs(900..<903), now: start) == .milliseconds(250))
    }

    @Test mutating func `an empty claim does not end it`() {
        _ = pause.claimed(placed: 0, givenBack: jobs(0..<3), now: start)
        #expect(pause.claimed(placed: 0, givenBack: [], now: start) == nil)
        #expect(pause.claimed(placed: 0, givenBack: jobs(0..<3), now: start) == .milliseconds(250))
    }

    @Test mutating func `a rotation whose first job is gone ends after a minute`() {
        _ = pause.claimed(placed: 0, givenBack: jobs(0..<3), now: start)
        #expect(pause.claimed(placed: 0, givenBack: jobs(1..<3), now: start + .seconds(59)) == .microseconds(20))
        #expect(pause.claimed(placed: 0, givenBack: jobs(1..<3), now: start + .seconds(60)) == .seconds(5))
        #expect(pause.places(4) == 4)
    }
}
