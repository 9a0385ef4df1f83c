import Testing

@Suite("The ledger of the simulation")
struct LedgerTests {
    private let world = World(seed: 1)
    private let ledger: Ledger

    init() {
        ledger = Ledger(world)
        ledger.isForgetful = true
    }

    /// Worker 1 pushes a job twice, because it did not read the first response. Both pushes are accepted.
    private func pushedTwice() -> Int {
        let job = ledger.produce(mayExpire: false, app: 0)
        for _ in 0..<2 { ledger.accepted(ledger.sent(job, by: 1)) }
        return job
    }

    @Test func `repeated pushes are excused if only the worker knew them and Redis has lost the job`() {
        let job = pushedTwice()
        ledger.crashed(1, untold: 1)
        ledger.forget(job)
        ledger.lose(job, with: 1)
        ledger.check(maybeDuplicates: 0)
        #expect(world.failure == nil)
    }

    @Test func `repeated pushes that were reported to Redis are not excused`() {
        let job = pushedTwice()
        ledger.crashed(1, untold: 0)
        ledger.lose(job, with: 1)
        ledger.check(maybeDuplicates: 0)
        #expect(world.failure != nil)
    }

    @Test func `repeated pushes are not excused while Redis has the job in flight`() {
        _ = pushedTwice()
        ledger.crashed(1, untold: 1)
        ledger.check(maybeDuplicates: 0)
        #expect(world.failure != nil)
    }
}
