import ArgumentParser
import Faults
import Glibc
import Harness
import Platform

/// Runs the fault table and prints its figures.
struct Chaos: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Injects faults under load and verifies the accounting after each.",
        discussion: """
            Every row queues jobs with their own device tokens, injects its fault, waits until no job is waiting, in flight or \
            delayed, and compares the jobs that Redis acknowledged with the simulator's ledger and the dead letters. A row \
            fails if a job is lost, if a push was delivered without a queued job, if there are more duplicates than the rule \
            allows or than the daemons counted as maybe_duplicate, if a daemon exited by itself or exceeded its memory, or if a \
            key of a finished job is left in Redis. If the fault makes Redis forget jobs or removes them, the column "gone" \
            counts those that were not sent before.
            """)

    @Option(help: "Seed of all random numbers; by default a random seed, which is printed.")
    var seed: UInt64 = .random(in: 1...999_999)

    @Option(help: ArgumentHelp("Only this row, by number or name; repeatable.", valueName: "row"))
    var fault: [String] = []

    @Option(help: ArgumentHelp("Minutes that the rows 'everything' and 'fleet' run.", valueName: "n"))
    var minutes: Double?

    @Option(
        help: ArgumentHelp(
            "An older daemon, for 'rolling-upgrade' (0.1.0) and 'upgrade-aside'; by default that of scripts/older-daemon.",
            valueName: "path"))
    var older: String?

    @Flag(help: "Use small counts, as in the test suite.")
    var small = false

    @Flag(help: "Run only the rows of the test suite.")
    var quick = false

    @Flag(help: "Stop at the first row that fails.")
    var untilFailure = false

    @Flag(help: "List the rows with their names, and exit.")
    var list = false

    @Option(help: ArgumentHelp("Also write the table to this file as Markdown.", valueName: "file"))
    var markdown: String?

    func run() throws {
        let rows = Fault.all.filter { row in
            (fault.isEmpty || fault.contains(row.name) || fault.contains(String(row.number))) && (row.isQuick || !quick)
        }
        guard !rows.isEmpty else {
            throw ValidationError("--fault must be a number or one of \(Fault.all.map(\.name).joined(separator: ", "))")
        }
        if list { return printList(rows) }
        say("seed \(seed)\n")
        say(ChaosTable.header)
        var failures: [String] = []
        var table = ChaosTable()
        var missing: [String] = []
        for row in rows where failures.isEmpty || !untilFailure {
            do {
                failures += try run(row, noting: &table)
            } catch {
                say(pad(row.number, 3) + "  " + padRight(row.title, 55) + "  not run: \(error)")
                missing.append(row.name)
            }
        }
        if let markdown { try File.write(table.markdown, to: markdown) }
        guard failures.isEmpty else {
            throw LabError(
                description: "\n" + failures.joined(separator: "\n") + "\nRepeat with: make chaos SEED=\(seed) FAULT=…")
        }
        say("\nlost 0 in every row" + (missing.isEmpty ? "" : "; not run: " + missing.joined(separator: ", ")))
    }

    func validate() throws {
        if let minutes, !(0.01...10_000).contains(minutes) { throw ValidationError("--minutes must be from 0.01 to 10000") }
        if let older, unsafe access(older, X_OK) != 0 { throw ValidationError("--older: \(older) is not a program") }
    }

    private func printList(_ rows: [Fault]) {
        for row in rows { say(pad(row.number, 3) + "  " + padRight(row.name, 18) + row.title) }
        say("\nnot run:")
        for row in Fault.notRun { say(pad(row.number, 3) + "  " + padRight(row.title, 40) + row.reason) }
    }

    /// Runs one row, prints its line, and returns the violated conditions.
    private func run(_ row: Fault, noting table: inout ChaosTable) throws(TrialNotPossibleError) -> [String] {
        let start = Instant.now
        do {
            let result = try row.run(
                scale: small ? .small : .full, seed: seed, older: older ?? BuiltProducts.olderDaemon,
                duration: minutes.map { .seconds($0 * 60) })
            say(table.add(row, result, seconds: (Instant.now - start) / .seconds(1)))
            for note in result.notes { say("     " + note) }
            return result.failures.map { "\(row.name): \($0)" }
        } catch let error as TrialNotPossibleError {
            throw error
        } catch {
            say(pad(row.number, 3) + "  " + padRight(row.title, 55) + "  FAILED")
            return ["\(row.name): \(error)"]
        }
    }
}

/// The fault table, for the terminal and as Markdown.
struct ChaosTable {
    static let header =
        padRight("  #  fault", 60) + " times    jobs  delivered   dead  lost  twice at most    gone    recovery"
        + "  idle CPU  longest turn     exit  seconds"

    private var rows = [
        "| # | fault | injections | jobs | delivered | dead | lost | twice | at most | gone | recovery "
            + "| idle CPU | longest turn | exit |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]

    var markdown: String { rows.joined(separator: "\n") + "\n" }

    /// Adds a row, and returns its line.
    ///
    /// - Parameter seconds: the time of the whole row.
    mutating func add(_ row: Fault, _ result: Trial.Result, seconds: Double) -> String {
        let sums = result.accounting
        let most =
            switch row.rule {
            case .nothingTwice: "0"
            case .onlyWhatWasInFlight, .ofWhatRedisKept: String(result.bound)
            case .survival: "-"
            }
        let time = { (time: Duration?) in time.map { decimal($0 / .seconds(1), 1) + " s" } ?? "-" }
        let recovery = time(result.recovery)
        let idle = result.figures.idleShare.map { decimal($0 * 100, 1) + " %" } ?? "-"
        let turn = result.figures.longestTurn.map { "\(Int($0 / .milliseconds(1))) ms" } ?? "-"
        let exit = time(result.figures.exitTime)
        rows.append(
            "| \(row.number) | \(row.title) | \(result.times) | \(sums.queued) | \(sums.delivered) | \(sums.dead) "
                + "| **\(sums.lost)** | \(sums.extra) | \(most) | \(result.gone) | \(recovery) "
                + "| \(idle) | \(turn) | \(exit) |")
        return pad(row.number, 3) + "  " + padRight(row.title, 55) + pad(result.times, 6) + pad(sums.queued, 8)
            + pad(sums.delivered, 11) + pad(sums.dead, 7) + pad(sums.lost, 6) + pad(sums.extra, 7) + padLeft(most, 7)
            + pad(result.gone, 8) + padLeft(recovery, 12) + padLeft(idle, 10) + padLeft(turn, 14) + padLeft(exit, 9)
            + padLeft(decimal(seconds, 1), 9)
    }
}
