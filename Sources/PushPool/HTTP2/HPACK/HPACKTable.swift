/// The dynamic table of one direction, as far as an encoder must know it (RFC 7541, 2.3.2, 4): who is in it, where, and
/// who has to leave. An entry is known by the number of its insertion, from 1.
struct HPACKTable {
    /// Every entry counts for this much more than its name and its value (RFC 7541, 4.1).
    static let entryOverhead = 32
    /// Index of the newest entry: the static table comes first (RFC 7541, 2.3.3).
    private static let firstIndex = 62

    /// Bytes that the entries may count for.
    private(set) var limit: Int
    private(set) var used = 0
    /// Of the entries in the table, oldest first: at most 128 in 4,096 bytes.
    private var sizes: [Int] = []
    private var inserted = 0

    init(limit: Int) { self.limit = limit }

    /// The index of an entry; `nil` if it has left the table, or never was in it.
    func index(of number: Int) -> Int? {
        guard number > inserted - sizes.count else { return nil }
        return Self.firstIndex + inserted - number
    }

    /// A new entry, before which the oldest leave until there is room; returns its number. One that is larger than the
    /// table empties it and is not in it (RFC 7541, 4.4).
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
