/// The jobs this worker holds, by id: from their claim until Redis has confirmed their settlement.
///
/// Ids rise, so this is a sliding window: pages of 256 slots, whose empty front pages are removed. It hashes nothing, and one old
/// job that stays costs 16 bytes for every 256 later ids. The bytes are shared with the owner of the job, not copied.
struct JobWindow {
    private struct Page {
        var slots: [[UInt8]?] = []
        var count = 0
    }

    private static let pageSize: UInt64 = 256
    /// The level of a job that was alone in a worker that died: it is not pushed again.
    static let suspect: UInt8 = 4

    private var pages: [Page] = []
    private var firstPage: UInt64 = 0
    /// The number of crashes at which a job was in flight, where it is not 0.
    private var levels: [ClaimID: UInt8] = [:]
    /// Jobs that are too large: their bytes here are only the beginning.
    private var abridged: Set<ClaimID> = []
    private(set) var count = 0
    /// Bytes of all jobs.
    private(set) var byteCount = 0

    var isEmpty: Bool { count == 0 }
    /// Whether there is a job that must be alone in its worker, because it may crash workers.
    var holdsIsolated: Bool { !levels.isEmpty && levels.values.contains { $0 >= 3 } }

    func countOfLevel(_ level: UInt8) -> Int {
        levels.isEmpty ? 0 : levels.values.count { $0 == level }
    }

    mutating func insert(_ job: ClaimedJob, level: UInt8 = 0) {
        if job.fullSize != nil { abridged.insert(job.id) }
        insert(job.id, bytes: job.bytes, level: level)
    }

    mutating func insert(_ id: ClaimID, bytes: [UInt8], level: UInt8 = 0) {
        let place = makePage(of: id)
        let slot = Int(id.number % JobWindow.pageSize)
        if pages[place].slots.isEmpty { pages[place].slots = Array(repeating: nil, count: Int(JobWindow.pageSize)) }
        if pages[place].slots[slot] == nil {
            count += 1
            pages[place].count += 1
        } else {
            byteCount -= pages[place].slots[slot]?.count ?? 0
        }
        pages[place].slots[slot] = .some(bytes)
        byteCount += bytes.count
        if level > 0 { levels[id] = level }
    }

    /// Removes a job; `false` when it was not held.
    @discardableResult
    mutating func remove(_ id: ClaimID) -> Bool {
        guard let (place, slot) = position(of: id), let bytes = pages[place].slots[slot].take() else { return false }
        byteCount -= bytes.count
        if !abridged.isEmpty { abridged.remove(id) }
        pages[place].count -= 1
        count -= 1
        if !levels.isEmpty { levels[id] = nil }
        if pages[place].count == 0 {
            // The last page is filled next: it keeps its memory.
            if place < pages.count - 1 { pages[place].slots = [] }
            if place == 0 { dropEmptyFront() }
        }
        return true
    }

    func bytes(of id: ClaimID) -> [UInt8]? {
        guard let (place, slot) = position(of: id) else { return nil }
        return pages[place].slots[slot]
    }

    func contains(_ id: ClaimID) -> Bool { bytes(of: id) != nil }

    func isAbridged(_ id: ClaimID) -> Bool { !abridged.isEmpty && abridged.contains(id) }

    func level(of id: ClaimID) -> UInt8 { levels.isEmpty ? 0 : levels[id] ?? 0 }

    /// The name of the job's field in the in-flight hash.
    func field(of id: ClaimID) -> String { JobWindow.field(of: id, level: level(of: id)) }

    static func field(of id: ClaimID, level: UInt8) -> String { level == 0 ? id.description : "\(id):\(level)" }

    /// Reads a field's name; `nil` for a name of another form.
    static func parse(field: String) -> (id: ClaimID, level: UInt8)? {
        let parts = field.split(separator: ":", omittingEmptySubsequences: false)
        guard let first = parts.first, let id = UInt64(first).map(ClaimID.init), parts.count <= 2 else { return nil }
        if parts.count == 1 { return (id, 0) }
        guard let level = UInt8(parts[1]) else { return nil }
        return (id, level)
    }

    /// In the order of the claims.
    var ids: [ClaimID] {
        var ids: [ClaimID] = []
        ids.reserveCapacity(count)
        for (place, page) in pages.enumerated() where page.count > 0 {
            for slot in page.slots.indices where page.slots[slot] != nil {
                ids.append(ClaimID((firstPage + UInt64(place)) * JobWindow.pageSize + UInt64(slot)))
            }
        }
        return ids
    }

    private func position(of id: ClaimID) -> (page: Int, slot: Int)? {
        let page = id.number / JobWindow.pageSize
        guard page >= firstPage, page - firstPage < UInt64(pages.count) else { return nil }
        let place = Int(page - firstPage)
        return pages[place].slots.isEmpty ? nil : (place, Int(id.number % JobWindow.pageSize))
    }

    private mutating func makePage(of id: ClaimID) -> Int {
        let page = id.number / JobWindow.pageSize
        if pages.isEmpty { firstPage = page }
        if page < firstPage {
            pages.insert(contentsOf: repeatElement(Page(), count: Int(firstPage - page)), at: 0)
            firstPage = page
        }
        let place = Int(page - firstPage)
        while pages.count <= place { pages.append(Page()) }
        return place
    }

    private mutating func dropEmptyFront() {
        let empty = pages.dropLast().prefix { $0.count == 0 }.count
        pages.removeFirst(empty)
        firstPage += UInt64(empty)
    }
}
