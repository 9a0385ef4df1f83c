import Clocks
import RedisQueue
import Testing

@testable import gaplessd

@Suite("How fast jobs of a held app go round")
struct HeldRoundsTests {
    private var rounds = HeldRounds()
    private let start = Instant.now

    private func jobs(_ numbers: Range<Int>) -> [ClaimedJob] {
        numbers.map { ClaimedJob(id: ClaimID(UInt64($0)), bytes: Array("job \($0)".utf8)) }
    }

    @Test mutating func `not at all where every job found its place`() {
        #expect(rounds.claimed(placed: 250, givenBack: [], now: start) == nil)
    }

    @Test mutating func `a hundred thousand in a second, until the whole list was seen`() {
        for claim in 0..<400 {
            let numbers = claim * 250..<(claim + 1) * 250
            #expect(rounds.claimed(placed: 0, givenBack: jobs(numbers), now: start) == .microseconds(2500))
        }
        // The first of them comes round.
        #expect(rounds.claimed(placed: 0, givenBack: jobs(0..<250), now: start + .seconds(2)) == .seconds(2))
        #expect(rounds.claimed(placed: 0, givenBack: jobs(250..<500), now: start + .seconds(4)) == .microseconds(2500))
    }

    @Test mutating func `where nothing else is found, more is looked at than there are places for`() {
        #expect(rounds.places(4) == 4)
        _ = rounds.claimed(placed: 0, givenBack: jobs(0..<4), now: start)
        #expect(rounds.places(4) == 250 && rounds.places(2000) == 2000)
        #expect(rounds.places(0) == 0)
        _ = rounds.claimed(placed: 2, givenBack: jobs(4..<200), now: start)
        #expect(rounds.places(4) == 4)
    }

    @Test mutating func `a short list is looked through four times a second, a long one every five seconds`() {
        _ = rounds.claimed(placed: 0, givenBack: jobs(0..<3), now: start)
        #expect(rounds.claimed(placed: 0, givenBack: jobs(0..<3), now: start) == .milliseconds(250))
        _ = rounds.claimed(placed: 0, givenBack: jobs(0..<3), now: start)
        #expect(rounds.claimed(placed: 0, givenBack: jobs(0..<3), now: start + .seconds(60)) == .seconds(5))
    }

    @Test mutating func `a job of another app among them begins the round anew`() {
        _ = rounds.claimed(placed: 0, givenBack: jobs(0..<10), now: start)
        #expect(rounds.claimed(placed: 1, givenBack: jobs(0..<10), now: start) == .microseconds(100))
        #expect(rounds.claimed(placed: 0, givenBack: jobs(0..<10), now: start) == .microseconds(100))
    }
}
