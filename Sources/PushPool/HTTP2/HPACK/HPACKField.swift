/// A name and a value that many requests repeat.
struct HPACKField {
    let name: HPACKName
    let value: [UInt8]
    /// The number of its table entry, which may have been evicted; 0 for none.
    var number = 0

    init(_ name: HPACKName, _ value: [UInt8]) {
        self.name = name
        self.value = value
    }

    var size: Int { name.size(with: value.count) }
}
