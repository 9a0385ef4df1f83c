import Glibc
import Harness
import Platform
import Testing

/// `make simulate` runs more: for MINUTES, from SEED on.
@Suite("The simulation of the daemon", .serialized)
struct SimulationTests {
    private static func number(_ name: String) -> UInt64? {
        guard let value = getenv(name) else { return nil }
        return UInt64(String(cString: value))
    }

    @Test(.timeLimit(.minutes(1500))) func `no fault loses a job or sends one twice without an excuse`() throws {
        let host = try RedisHost()
        let chosen = Self.number("SEED")
        let minutes = Self.number("MINUTES")
        var seed = chosen ?? .random(in: 0...9_999_999)
        let first = seed
        let begun = Instant.now
        let end = minutes.map { begun + .seconds(60 * Int64($0)) }
        var (runs, steps, simulated) = (0, 0, Int64(0))
        var sums = Ledger.Sums()
        var faults = [Int](repeating: 0, count: Fault.allCases.count)
        repeat {
            let run = DaemonRun(seed: seed, host)
            run.run()
            if run.world.failure != nil { return report(run, host) }
            sums += run.ledger.sums
            (runs, steps, simulated, seed) = (runs + 1, steps + run.world.steps, simulated + run.world.time, seed + 1)
            for kind in faults.indices { faults[kind] += run.faults[kind] }
            // One seed alone is a replay.
            if chosen != nil && minutes == nil { break }
        } while end.map { Instant.now < $0 } ?? (runs < 8)
        let seconds = (Instant.now - begun) / .seconds(1)
        print(
            "simulation: \(runs) runs from seed \(first), \(steps) events, \(Int(Double(steps) / seconds * 60)) a minute, "
                + "\(simulated / .second) s of simulated time")
        print(
            "simulation: \(sums.jobs) jobs, \(sums.requests) requests, \(sums.accepted) accepted, \(sums.dead) dead, "
                + "\(sums.superseded) superseded, \(sums.extra) twice with an excuse, \(sums.forgotten) forgotten by Redis")
        let kinds = Fault.allCases.map { "\($0) \(faults[$0.rawValue])" }
        print("simulation: faults: \(kinds.joined(separator: ", "))")
    }

    /// Prints the last steps, or those of the job that the failure is about: the run is repeated to find them.
    private func report(_ run: DaemonRun, _ host: RedisHost) {
        let world = run.world
        Issue.record("\(world.failure ?? ""). Replay: make simulate SEED=\(world.seed)")
        print("simulation: conditions: \(run.conditions)")
        for line in world.lastSteps(40) { print(line) }
        guard let job = world.failedJob else { return }
        let again = DaemonRun(seed: world.seed, host, watching: job)
        again.run()
        print("simulation: job \(job):")
        for line in again.world.story { print(line) }
    }

    /// `make match` runs it in full: 50 channels for 30 minutes.
    @Test(.timeLimit(.minutes(600)), arguments: [(false, nil), (true, nil), (false, 15), (true, 15)] as [(Bool, Int?)])
    func `each channel of a match shows its last state, and never goes back`(hasRetryAfter: Bool, pace: Int?) throws {
        let host = try RedisHost()
        var match = Conditions.Match()
        if Self.number("MATCH") == nil { (match.channels, match.minutes, match.devices) = (5, 4, 500) }
        (match.hasRetryAfter, match.pace) = (hasRetryAfter, pace.map { .seconds($0) })
        let seed = Self.number("SEED") ?? .random(in: 0...9_999_999)
        let run = DaemonRun(seed: seed, host, match: match)
        run.run()
        if run.world.failure != nil { return report(run, host) }
        let ages = run.ages(match)
        let hours = Double(match.channels * match.minutes) / 60
        let crashes = run.faults[Fault.crash.rawValue]
        print("match: \(match.channels) channels, \(match.minutes) minutes, seed \(seed), \(crashes) crashes")
        print("match: 429 with Retry-After: \(hasRetryAfter ? "yes" : "no"), channel_pace: \(pace.map { "\($0)" } ?? "auto")")
        func row(_ name: String, _ shown: [Double]) { print("match: \(name): \(DaemonRun.Ages.text(shown, ages.best))") }
        row("best schedule, with the limits known before", ages.best)
        row("the daemon", ages.shown)
        let superseded = run.ledger.sums.superseded
        print("match: \(Int(Double(run.refused) / hours)) responses of 429 per channel and hour, \(superseded) superseded")
        if pace == nil {
            row("pauses of 429 as distance, alone", run.ages(match, by: .pauses))
            for distance in [2.0, 5, 10, 15, 20, 30] {
                row("a distance of \(Int(distance)) s and pauses, alone", run.ages(match, by: .distance(distance)))
            }
        }
        for (number, scope) in run.ledger.scopes {
            #expect(scope.newest == scope.jobs.count - 1, "channel \(number), seed \(seed)")
        }
        #expect(!ages.shown.isEmpty && run.ledger.sums.superseded > 0)
    }

    @Test func `a seed repeats its run step by step`() throws {
        let host = try RedisHost()
        let first = UInt64.random(in: 0...9_999_999)
        func digest(_ seed: UInt64) -> UInt64 {
            let run = DaemonRun(seed: seed, host)
            run.run()
            return run.digest
        }
        let digests = (first..<first + 3).map(digest)
        #expect((first..<first + 3).map(digest) == digests, "seed \(first)")
        #expect(Set(digests).count == digests.count, "seed \(first)")
    }
}

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
        ledger.crashed(1, untold: 1, isBehind: false)
        ledger.forget(job)
        ledger.lose(job, with: 1)
        ledger.check(maybeDuplicates: 0)
        #expect(world.failure == nil)
    }

    @Test func `repeated pushes that were reported to Redis are not excused`() {
        let job = pushedTwice()
        ledger.crashed(1, untold: 0, isBehind: false)
        ledger.lose(job, with: 1)
        ledger.check(maybeDuplicates: 0)
        #expect(world.failure != nil)
    }

    @Test func `repeated pushes are not excused while Redis has the job in flight`() {
        _ = pushedTwice()
        ledger.crashed(1, untold: 1, isBehind: false)
        ledger.check(maybeDuplicates: 0)
        #expect(world.failure != nil)
    }

    @Test(arguments: [true, false])
    func `a push that Redis has forgotten is excused if its worker ended before it knew`(isBehind: Bool) {
        let job = ledger.produce(mayExpire: false, app: 0)
        ledger.accepted(ledger.sent(job, by: 1))
        ledger.returned([job], countedBy: [1])
        ledger.crashed(1, untold: 0, isBehind: isBehind)
        ledger.accepted(ledger.sent(job, by: 2))
        ledger.check(maybeDuplicates: 0)
        #expect((world.failure == nil) == isBehind)
    }
}

@Suite("A schedule by a rule alone")
struct ScheduleTests {
    private func ages(_ rule: Schedule.Rule, _ limits: [Int], hasRetryAfter: Bool = false) -> [Double] {
        var schedule = Schedule(rule, limits, hasRetryAfter: hasRetryAfter)
        return schedule.ages()
    }

    @Test func `a limit that is never reached shows each state at once`() {
        #expect(ages(.pauses, [60, 60, 60]) == [Double](repeating: 0, count: 120))
        #expect(ages(.distance(20), [3, 3]) == (0..<60).map { Double($0 % 20) })
    }

    /// The limit of 7 is reached at 7 s. Pauses of 15, 30 and 60 s end at 112 s.
    @Test func `the first pauses double within one minute, and the last one ends in the next`() {
        #expect(ages(.pauses, [7, 7]).prefix(53).max() == 105.0)
        #expect(ages(.pauses, [7, 7], hasRetryAfter: true).prefix(50).max() == 49.0)
    }
}
