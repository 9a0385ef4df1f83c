import Faults
import Harness

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
