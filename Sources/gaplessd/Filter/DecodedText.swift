/// The content of one JSON string, scalar by scalar, with the place of each in the bytes.
struct DecodedText {
    private(set) var scalars: [UInt32] = []
    /// Where each scalar begins, and at the end where the last one ends.
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

    /// Whether no word goes on between this scalar and the one before it, seen from a word on either side.
    func isEdge(before index: Int) -> Bool {
        guard index > 0, index < scalars.count else { return true }
        let neighbours = scalars[index - 1...index].compactMap(Unicode.Scalar.init)
        return !neighbours.allSatisfy(\.joinsWords)
    }

    /// The marked stretches of the text.
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
