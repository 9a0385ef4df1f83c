import FaultTable
import Harness

/// The fault table as it is printed, and the same as Markdown for those who want to show theirs.
struct ChaosTable {
    static let header =
        padRight("  #  fault", 60) + " times    jobs  delivered   dead  lost  twice   most    gone  back after  seconds"

    private var rows = [
        "| # | fault | times | jobs | delivered | dead | lost | twice | most | gone | back after |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]

    var markdown: String { rows.joined(separator: "\n") + "\n" }

    /// Returns the line to print.
    ///
    /// - Parameter seconds: how long the whole row took.
    mutating func add(_ row: Fault, _ result: Trial.Result, seconds: Double) -> String {
        let books = result.accounting
        let most =
            switch row.rule {
            case .nothingTwice: "0"
            case .onlyWhatWasInFlight, .ofWhatRedisKept: String(result.bound)
            case .survival: "-"
            }
        let back = result.recovery.map { decimal($0 / .seconds(1), 1) + " s" } ?? "-"
        rows.append(
            "| \(row.number) | \(row.title) | \(result.times) | \(books.queued) | \(books.delivered) | \(books.dead) "
                + "| **\(books.lost)** | \(books.extra) | \(most) | \(result.gone) | \(back) |")
        return pad(row.number, 3) + "  " + padRight(row.title, 55) + pad(result.times, 6) + pad(books.queued, 8)
            + pad(books.delivered, 11) + pad(books.dead, 7) + pad(books.lost, 6) + pad(books.extra, 7) + padLeft(most, 7)
            + pad(result.gone, 8) + padLeft(back, 12) + padLeft(decimal(seconds, 1), 9)
    }
}
