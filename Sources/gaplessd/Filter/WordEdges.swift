/// The ends of a match that must be word boundaries.
struct WordEdges: OptionSet {
    let rawValue: UInt8
    static let start = WordEdges(rawValue: 1)
    static let end = WordEdges(rawValue: 2)
    static let all: [WordEdges] = [[], start, end, [start, end]]

    init(rawValue: UInt8) { self.rawValue = rawValue }

    init(atStart: Bool, atEnd: Bool) {
        self = []
        if atStart { insert(.start) }
        if atEnd { insert(.end) }
    }
}
