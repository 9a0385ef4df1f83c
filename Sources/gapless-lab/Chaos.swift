import ArgumentParser
import Glibc
import Harness
import RedisQueue

/// The fault table: what was injected how often, how many jobs went through, and what became of them.
struct Chaos: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Injects faults under load and balances the books after each.",
        discussion: """
            Every row queues jobs with tokens of their own, injects its fault, waits until nothing waits, flies or is \
            delayed, and compares what Redis acknowledged with the simulator's ledger and the dead letters. A row fails \
            when a job is lost, when one was delivered that nobody queued, or when more were delivered twice than were \
            in flight at the faults.
            """)

    @Option(help: "Seed of everything random; chosen and printed unless given.")
    var seed: UInt64 = .random(in: 1...999_999)

    @Option(help: ArgumentHelp("Only this row; repeatable.", valueName: "name"))
    var fault: [String] = []

    func run() throws {
        let rows = fault.isEmpty ? Fault.all : Fault.all.filter { fault.contains($0.name) }
        guard !rows.isEmpty else {
            throw ValidationError("--fault is one of \(Fault.all.map(\.name).joined(separator: ", "))")
        }
        say("seed \(seed)\n")
        say(padRight("fault", 46) + " times    jobs  delivered   dead  lost  twice  bound  seconds")
        var failures: [String] = []
        for row in rows {
            let start = ContinuousClock.now
            var random = SeededGenerator(seed: seed)
            let result = try row.inject(&random)
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            let books = result.balance
            say(
                padRight(row.title, 46) + pad(result.times, 6) + pad(books.queued, 8) + pad(books.delivered, 11) + pad(books.dead, 7)
                    + pad(books.lost, 6) + pad(books.extra, 7) + pad(result.bound, 7) + "  " + decimal(seconds, 1))
            failures += result.failures.map { "\(row.name): \($0)" }
        }
        guard failures.isEmpty else {
            throw LabFailure(description: failures.joined(separator: "\n") + "\nagain with: make chaos SEED=\(seed)")
        }
        say("\nlost 0 in every row")
    }
}

/// One row of the table.
struct Fault: Sendable {
    struct Result {
        /// How often the fault was injected.
        var times: Int
        var balance: Balance
        /// The most that may have been delivered twice: what was in flight at the faults.
        var bound: Int
        /// What else was not as it must be.
        var remarks: [String] = []

        var failures: [String] {
            var failures = remarks
            if balance.lost > 0 || balance.unexpected > 0 { failures.append("\(balance)") }
            if balance.extra > bound { failures.append("\(balance.extra) delivered twice, at most \(bound) were in flight") }
            return failures
        }
    }

    let name: String
    let title: String
    let inject: @Sendable (inout SeededGenerator) throws -> Result

    static let all = [mixedAnswers, killDaemon, killRedis, cutRedis, goAway, hostileJobs, drain]
}

/// The same numbers for the same seed (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
