/// The open containers, innermost last, with one bit each, so that depth costs almost nothing.
struct Nesting {
    /// The innermost 63 at most, the last in the lowest bit, below a bit that is set; 1 is an object.
    private var word: UInt64 = 1
    /// Full words of the outer containers, allocated only beyond a depth of 63.
    private var outer: [UInt64] = []

    var isInObject: Bool { word & 1 != 0 }

    mutating func open(isObject: Bool) {
        if word >> 63 != 0 {
            outer.append(word)
            word = 1
        }
        word = word << 1 | (isObject ? 1 : 0)
    }

    /// Closes the innermost container. Returns whether it was the last one.
    mutating func close() -> Bool {
        word >>= 1
        if word != 1 { return false }
        guard let full = outer.popLast() else { return true }
        word = full
        return false
    }
}
