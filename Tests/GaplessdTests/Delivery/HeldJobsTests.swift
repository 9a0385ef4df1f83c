import Platform
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The held jobs")
struct HeldJobsTests {
    private var jobs = HeldJobs(app: 0)

    private func job(claim: UInt64) throws -> HeldJob {
        var reader = JobReader(retryLimit: 3, appNames: [])
        let bytes = Array(#"{"token":"ab","data":{"aps":{}}}"#.utf8)
        let turn = Turn(MachineFixture.plan(), now: .now, wallClock: WallClock(seconds: 0))
        return HeldJob(try reader.read(bytes), ClaimedJob(id: ClaimID(claim), bytes: bytes), list: 0, app: 0, turn)
    }

    @Test mutating func `a job is found by its number until it is removed`() throws {
        let number = jobs.insert(try job(claim: 7))
        let found = jobs[number]
        #expect(found?.claim == ClaimID(7))
        #expect(jobs.count == 1)
        let removed = jobs.remove(number)
        #expect(removed?.claim == ClaimID(7))
        let gone = jobs[number]
        #expect(gone == nil)
        let again = jobs.remove(number)
        #expect(again == nil)
        #expect(jobs.count == 0)
    }

    @Test mutating func `the number of a removed job does not find the next job in its slot`() throws {
        let first = jobs.insert(try job(claim: 1))
        _ = jobs.remove(first)
        let second = jobs.insert(try job(claim: 2))
        #expect(first != second)
        let (former, present) = (jobs[first], jobs[second])
        #expect(former == nil)
        #expect(present?.claim == ClaimID(2))
    }

    @Test mutating func `slots are reused`() throws {
        for claim in 0..<10_000 {
            let number = jobs.insert(try job(claim: UInt64(claim)))
            #expect(number.slot == 0)
            _ = jobs.remove(number)
        }
    }

    @Test mutating func `jobs are found by a condition`() throws {
        let numbers = [jobs.insert(try job(claim: 1)), jobs.insert(try job(claim: 2)), jobs.insert(try job(claim: 3))]
        _ = jobs.remove(numbers[1])
        let late = jobs.ids { $0.claim > ClaimID(1) }
        let all = jobs.ids { _ in true }
        #expect(late == [numbers[2]])
        #expect(all.count == 2)
    }
}
