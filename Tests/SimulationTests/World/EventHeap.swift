/// The events to come. The earliest is taken first; of events at one time, the one that was added first.
struct EventHeap {
    private struct Entry {
        var time: Int64
        var number: UInt64
        var body: () -> Void

        func isBefore(_ other: Entry) -> Bool { time != other.time ? time < other.time : number < other.number }
    }

    private var entries: ContiguousArray<Entry> = []
    private var added: UInt64 = 0

    var next: Int64? { entries.first?.time }

    mutating func add(at time: Int64, _ body: @escaping () -> Void) {
        added += 1
        let entry = Entry(time: time, number: added, body: body)
        var place = entries.count
        entries.append(entry)
        while place > 0, entry.isBefore(entries[(place - 1) / 2]) {
            entries[place] = entries[(place - 1) / 2]
            place = (place - 1) / 2
        }
        entries[place] = entry
    }

    mutating func popFirst() -> (time: Int64, body: () -> Void)? {
        guard let first = entries.first, let last = entries.popLast() else { return nil }
        let count = entries.count
        if count > 0 {
            var place = 0
            while true {
                var child = 2 * place + 1
                if child >= count { break }
                if child + 1 < count, entries[child + 1].isBefore(entries[child]) { child += 1 }
                if !entries[child].isBefore(last) { break }
                entries[place] = entries[child]
                place = child
            }
            entries[place] = last
        }
        return (first.time, first.body)
    }
}
