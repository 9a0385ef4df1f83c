/// Finds many words in one pass over a text, byte by byte (Aho and Corasick, "Efficient string matching", 1975).
///
/// States are numbered breadth first, so that the children of a state are consecutive and need no table: 17 bytes for a state.
/// The first states, in which most of a clean text stays, also have a row of all their transitions.
struct WordAutomaton: Sendable {
    typealias State = UInt32
    static let start: State = 0

    /// The first child of each state; the children end at the first child of the next state.
    private var children: [State] = []
    /// The class of the byte that leads to each state.
    private var labels: [UInt8] = [0]
    /// The class of each byte: 0 for bytes that occur in no word.
    private var classes = [UInt8](repeating: 0, count: 256)
    private var classCount = 1
    /// The state to continue in if no child matches: the longest proper suffix that begins a word.
    private var failures: [State] = [0]
    /// The state itself if a word ends there, otherwise the next such state along the failures; 0 for none.
    private var reports: [State] = [0]
    /// The word that ends at each state; -1 for none.
    private var words: [Int32] = [-1]
    /// All transitions of the first states, by class.
    private var rows: [State] = []
    private var rowCount: State = 0

    /// Entries of `rows`, 1 MiB. With 10,000 words a payload costs a quarter of the time that it takes with one row for the root.
    private static let mostSteps = 1 << 18

    /// - Parameter sorted: distinct words of at least one byte, in the order of their bytes.
    init(sorted: [[UInt8]]) {
        for byte in Set(sorted.joined()).sorted() {
            // Folded UTF-8 contains neither A to Z nor C0, C1 and F5 to FF: at most 217 classes.
            classes[Int(byte)] = UInt8(classCount)
            classCount += 1
        }
        grow(sorted)
        for state in 0..<State(labels.count) { connect(state) }
        rowCount = State(min(labels.count, Self.mostSteps / classCount))
        rows.reserveCapacity(Int(rowCount) * classCount)
        for state in 0..<rowCount { rows += (0..<classCount).map { walk(from: state, UInt8($0)) } }
    }

    /// Builds the trie. Each state represents a range of words with a common prefix.
    private mutating func grow(_ sorted: [[UInt8]]) {
        var ranges = [sorted.indices]
        var depths = [0]
        var state = 0
        while state < labels.count {
            children.append(State(labels.count))
            var at = ranges[state].lowerBound
            let (end, depth) = (ranges[state].upperBound, depths[state])
            if at < end, sorted[at].count == depth {
                words[state] = Int32(at)
                at += 1
            }
            while at < end {
                let byte = sorted[at][depth]
                let next = sorted[at..<end].firstIndex { $0[depth] != byte } ?? end
                labels.append(classes[Int(byte)])
                words.append(-1)
                ranges.append(at..<next)
                depths.append(depth + 1)
                at = next
            }
            state += 1
        }
        children.append(State(labels.count))
        failures = Array(repeating: 0, count: labels.count)
        reports = failures
    }

    /// Sets the failures of the children. The failure of the parent is closer to the root and therefore known.
    private mutating func connect(_ state: State) {
        for child in children[Int(state)]..<children[Int(state) + 1] {
            if state != 0 { failures[Int(child)] = walk(from: failures[Int(state)], labels[Int(child)]) }
            reports[Int(child)] = words[Int(child)] >= 0 ? child : reports[Int(failures[Int(child)])]
        }
    }

    private func walk(from state: State, _ kind: UInt8) -> State {
        var state = state
        while true {
            if let child = child(of: state, kind) { return child }
            if state == 0 { return 0 }
            state = failures[Int(state)]
        }
    }

    @inline(__always)
    private func child(of state: State, _ kind: UInt8) -> State? {
        let end = children[Int(state) + 1]
        var child = children[Int(state)]
        while child < end {
            if labels[Int(child)] == kind { return child }
            child += 1
        }
        return nil
    }

    /// Returns the state after one more byte.
    @inline(__always)
    func step(_ state: State, _ byte: UInt8) -> State {
        var state = state
        let kind = classes[Int(byte)]
        while state >= rowCount {
            if let child = child(of: state, kind) { return child }
            state = failures[Int(state)]
        }
        return rows[Int(state) &* classCount &+ Int(kind)]
    }

    /// Whether a word ends at this state.
    @inline(__always)
    func endsWord(_ state: State) -> Bool { reports[Int(state)] != 0 }

    /// The words that end at this state, the longest first.
    func words(endingAt state: State) -> [Int] {
        var found: [Int] = []
        var report = reports[Int(state)]
        while report != 0 {
            found.append(Int(words[Int(report)]))
            report = reports[Int(failures[Int(report)])]
        }
        return found
    }
}
