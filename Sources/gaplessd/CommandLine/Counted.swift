extension BinaryInteger {
    /// Returns `1 byte` or `2 bytes`, for a noun whose plural ends in s.
    func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
