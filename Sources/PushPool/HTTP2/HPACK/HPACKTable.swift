/// The encoder's view of the dynamic table (RFC 7541, 2.3.2, 4): entries, positions and evictions. An entry is identified by
/// the number of its insertion, from 1.
struct HPACKTable {
    /// The overhead that every entry adds to the size of its name and value (RFC 7541, 4.1).
    static let entryOverhead = 32
    /// The index of the newest entry: the static table comes first (RFC 7541, 2.3.3).
    private static let firstIndex = 62

    /// The most bytes that the entries may count for.
    private(set) var limit: Int
    private(set) var used = 0
    /// The sizes of the entries, oldest first: at most 128 in 4,096 bytes.
    private var sizes: [Int] = []
    private var inserted = 0

    init(limit: Int) { self.limit = limit }

    /// Returns the index of an entry, or `nil` if it is not in the table.
    func index(of number: Int) -> Int? {
        guard number > inserted - sizes.count else { return nil }
        return Self.firstIndex + inserted - number
    }

    /// Inserts an entry, evicting the oldest until there is room. Returns its number. An entry that is larger than the table
    /// empties it and is not inserted (RFC 7541, 4.4).
    mutating func insert(_ size: Int) -> Int {
        evict(until: limit - size)
        guard size <= limit else { return 0 }
        sizes.append(size)
        used += size
        inserted += 1
        return inserted
    }

    mutating func setLimit(_ limit: Int) {
        self.limit = limit
        evict(until: limit)
    }

    private mutating func evict(until most: Int) {
        while used > most, let oldest = sizes.first {
            used -= oldest
            sizes.removeFirst()
        }
    }
}
