/// The open containers, innermost last, with one bit each, so that depth costs almost nothing.
struct Nesting {
    private(set) var depth = 0
    /// The innermost 64, the last in the lowest bit; 1 is an object.
    private var word: UInt64 = 0
    /// Full words of the outer containers, allocated only beyond a depth of 64.
    private var outer: [UInt64] = []

    var isInObject: Bool { word & 1 != 0 }

    mutating func open(isObject: Bool) {
        if depth > 0, depth & 63 == 0 {
            outer.append(word)
            word = 0
        }
        word = word << 1 | (isObject ? 1 : 0)
        depth += 1
    }

    mutating func close() {
        word >>= 1
        depth -= 1
        if depth > 0, depth & 63 == 0 { word = outer.removeLast() }
    }
}
