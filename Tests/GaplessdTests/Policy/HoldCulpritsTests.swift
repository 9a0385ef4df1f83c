import Testing

@testable import gaplessd

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
