import Harness
import Testing

/// The table of transitions in the comment of a machine: what each fact does in each phase.
struct TransitionTable {
    private let rows: [[String]]

    /// - Parameter file: the source of the machine, whose comment has one table.
    init(_ file: String) {
        rows = Checkout.read(file).split(separator: "\n").filter { $0.hasPrefix("/// |") && !$0.hasPrefix("/// |---") }.map {
            line in
            line.dropFirst("/// |".count).dropLast().split(separator: "|", omittingEmptySubsequences: false).map { cell in
                String(cell.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
            }
        }
    }

    /// Compares the cells that can occur with the code.
    ///
    /// - Parameter transition: returns what the fact in the first column does in a phase; `nil` for an unknown fact.
    func compare(_ transition: (_ fact: String, _ phase: String) -> String?) {
        #expect(rows.count > 10)
        for row in rows.dropFirst() {
            for (phase, cell) in zip(rows[0], row).dropFirst() where !cell.isEmpty {
                let found = transition(row[0], phase)
                #expect(found == cell, "\(row[0]) in phase \(phase)")
            }
        }
    }

    /// Returns a cell: the kinds of the effects, each once, and the next phase if it is another one.
    static func cell(_ effects: [String], from before: String, to after: String) -> String {
        var kinds: [String] = []
        for kind in effects where !kinds.contains(kind) { kinds.append(kind) }
        let parts = [kinds.joined(separator: ", "), before == after ? "" : "→ \(after)"].filter { !$0.isEmpty }
        return parts.isEmpty ? "-" : parts.joined(separator: " ")
    }

    /// The name of a case without its values.
    static func kind(_ value: some Any) -> String { String("\(value)".prefix { $0 != "(" }) }
}
