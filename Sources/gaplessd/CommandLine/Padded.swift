extension String {
    /// Returns the text with spaces behind it.
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }

    /// Returns the text with spaces before it.
    func padded(leftTo width: Int) -> String { String(repeating: " ", count: max(0, width - count)) + self }
}
