extension BinaryInteger {
    /// `1 byte`, `2 bytes`: of a noun that takes an s.
    func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
