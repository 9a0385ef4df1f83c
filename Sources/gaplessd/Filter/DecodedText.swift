/// The scalars of one JSON string, with the place of each in the bytes.
struct DecodedText {
    private(set) var scalars: [UInt32] = []
    /// The start of each scalar, and the end of the last one.
    private var places: [Int] = []

    init(_ bytes: Span<UInt8>, _ content: Range<Int>) {
        var at = content.lowerBound
        while at < content.upperBound {
            let (scalar, next) = JSONText.scalar(bytes, at)
            scalars.append(scalar)
            places.append(at)
            at = next
        }
        places.append(content.upperBound)
    }

    /// Whether a word boundary lies before this scalar.
    func isEdge(before index: Int) -> Bool {
        guard index > 0, index < scalars.count else { return true }
        let neighbours = scalars[index - 1...index].compactMap(Unicode.Scalar.init)
        return !neighbours.allSatisfy(\.joinsWords)
    }

    /// Returns the ranges of marked scalars.
    func ranges(of marks: [Bool]) -> [(bytes: Range<Int>, scalars: Int)] {
        var ranges: [(bytes: Range<Int>, scalars: Int)] = []
        var at = 0
        while let first = marks[at...].firstIndex(of: true) {
            let end = marks[first...].firstIndex(of: false) ?? marks.count
            ranges.append((places[first]..<places[end], end - first))
            at = end
        }
        return ranges
    }
}
