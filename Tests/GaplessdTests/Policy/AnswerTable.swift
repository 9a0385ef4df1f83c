import Foundation
import Harness

/// docs/answers.md as rows. A document that a test reads cannot lie.
struct AnswerTable {
    struct Row: CustomStringConvertible, Sendable {
        var status: Int
        var reason: String
        /// "yes", "no", or nothing if the topic makes no difference.
        var namesTopic: String
        var end: String

        var description: String { "\(status) \(reason) \(namesTopic)" }
    }

    static let rows: [Row] = {
        let lines = Checkout.read("docs/answers.md").split(separator: "\n").filter { $0.hasPrefix("| ") }
        return lines.compactMap { line -> Row? in
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast().map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            guard cells.count == 4, let status = Int(cells[0]) else { return nil }
            return Row(status: status, reason: cells[1], namesTopic: cells[2], end: cells[3])
        }
    }()

    static let holds = rows.filter { $0.end == "held" }
}
