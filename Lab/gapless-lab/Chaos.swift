import ArgumentParser
import Clocks
import FaultTable
import Glibc
import Harness

/// The fault table: what was injected how often, how many jobs went through, and what became of them.
struct Chaos: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Injects faults under load and balances the books after each.",
        discussion: """
            Every row queues jobs with device tokens of their own, injects its fault, waits until nothing waits, flies or is \
            delayed, and compares what Redis acknowledged with the simulator's ledger and the dead letters. A row fails \
            when a job is lost, when one was delivered that nobody queued, when more were delivered again than its rule \
            allows or than the daemons counted as maybe_duplicate, when a daemon ended by itself or outgrew its memory, and \
            when a key of a finished job is left in Redis. Where the fault makes Redis itself forget jobs, or takes them out of \
            it, the column "gone" counts those that were not sent before.
            """)

    @Option(help: "Seed of everything random; chosen and printed unless given.")
    var seed: UInt64 = .random(in: 1...999_999)

    @Option(help: ArgumentHelp("Only this row, by number or name; repeatable.", valueName: "row"))
    var fault: [String] = []

    @Option(help: ArgumentHelp("How long the rows 'everything' and 'fleet' go on.", valueName: "n"))
    var minutes: Double?

    @Flag(help: "Small counts, as in the test suite.")
    var small = false

    @Flag(help: "Only the rows that the test suite runs as well.")
    var quick = false

    @Flag(help: "Stop at the first row that fails.")
    var untilFailure = false

    @Flag(help: "The rows with their names; injects nothing.")
    var list = false

    @Option(help: ArgumentHelp("Write the table to this file as Markdown, too.", valueName: "file"))
    var markdown: String?

    func run() throws {
        let rows = Fault.all.filter { row in
            (fault.isEmpty || fault.contains(row.name) || fault.contains(String(row.number))) && (row.isQuick || !quick)
        }
        guard !rows.isEmpty else {
            throw ValidationError("--fault is a number or one of \(Fault.all.map(\.name).joined(separator: ", "))")
        }
        if list { return printList(rows) }
        say("seed \(seed)\n")
        say(ChaosTable.header)
        var failures: [String] = []
        var table = ChaosTable()
        for row in rows where failures.isEmpty || !untilFailure { failures += run(row, noting: &table) }
        if let markdown { try File.write(table.markdown, to: markdown) }
        guard failures.isEmpty else {
            throw LabError(
                description: "\n" + failures.joined(separator: "\n") + "\nagain with: make chaos SEED=\(seed) FAULT=…")
        }
        say("\nlost 0 in every row that ran")
    }

    func validate() throws {
        if let minutes, !(0.01...10_000).contains(minutes) { throw ValidationError("--minutes is 0.01 to 10000") }
    }

    private func printList(_ rows: [Fault]) {
        for row in rows { say(pad(row.number, 3) + "  " + padRight(row.name, 18) + row.title) }
        say("\nnot run:")
        for row in Fault.notRun { say(pad(row.number, 3) + "  " + padRight(row.title, 40) + row.reason) }
    }

    /// Runs one row and prints its line; returns what was not as it must be.
    private func run(_ row: Fault, noting table: inout ChaosTable) -> [String] {
        let start = Instant.now
        do {
            let result = try row.run(scale: small ? .small : .full, seed: seed, duration: minutes.map { .seconds($0 * 60) })
            say(table.add(row, result, seconds: (Instant.now - start) / .seconds(1)))
            return result.failures.map { "\(row.name): \($0)" }
        } catch let error as TrialNotPossibleError {
            say(pad(row.number, 3) + "  " + padRight(row.title, 55) + "  not run: \(error)")
            return []
        } catch {
            say(pad(row.number, 3) + "  " + padRight(row.title, 55) + "  FAILED")
            return ["\(row.name): \(error)"]
        }
    }
}
