/// Settlements that are sent together, numbered so that Redis applies them once.
struct SettleBatch: Equatable {
    /// 0 until it is sealed.
    var sequence: UInt64 = 0
    private(set) var ids: [ClaimID] = []
    /// Those with a step, and not with a plain acknowledgement.
    private var stepIDs: [ClaimID] = []
    /// The chunks of the jobs.
    private var tallies: [Tally] = []
    /// The chunks with their entries, as `Scripts.settle` reads them.
    private(set) var chunks = Arguments()
    /// The chunks whose lists the batch removes, reads or compacts.
    private(set) var lists: [UInt64] = []
    /// The chunks of which Redis is to keep only the jobs in flight.
    private(set) var compacted: [UInt64] = []
    /// Everything else than plain acknowledgements, as `Scripts.settle` reads it.
    private(set) var steps = Arguments()
    /// The apps to whose side lists jobs go.
    private(set) var asides: [String] = []
    private(set) var resent = 0
    var maybeDuplicates = 0
    /// The number of jobs that are replaced by their parts.
    private(set) var splits = 0
    /// The number of jobs to which APNs has responded. They are pushed twice if Redis returns to a state before this batch.
    private(set) var responded = 0
    private(set) var hasResults = false

    private struct Tally: Equatable {
        var chunk: UInt64
        /// The number of plain acknowledgements.
        var acknowledged = 0
        /// Whether a step reads a job.
        var readsList = false
    }

    /// A batch is full beyond either. 256 chunks are far below the 8,000 values that Lua can unpack at once.
    static let mostJobs = 256
    static let mostBytes = 1 << 20

    var isEmpty: Bool { ids.isEmpty && maybeDuplicates == 0 }
    var isFull: Bool { ids.count >= SettleBatch.mostJobs || steps.bytes.count >= SettleBatch.mostBytes }

    var chunkCount: Int { tallies.count }

    /// Adds an acknowledgement without feedback and result.
    mutating func addAcknowledgement(_ id: ClaimID) {
        responded += 1
        ids.append(id)
        tallies[tally(of: id.chunk)].acknowledged += 1
    }

    /// Returns the index of a chunk, which is nearly always one of the last.
    private mutating func tally(of chunk: UInt64) -> Int {
        if let index = tallies.lastIndex(where: { $0.chunk == chunk }) { return index }
        tallies.append(Tally(chunk: chunk))
        return tallies.count - 1
    }

    /// - Parameter job: its bytes, if Redis does not keep them (`at_most_once`).
    mutating func add(_ settlement: Settlement, job: [UInt8]?) {
        resent += max(0, settlement.resends)
        if case .ack = settlement.effect, settlement.feedback == nil, settlement.result == nil {
            return addAcknowledgement(settlement.id)
        }
        ids.append(settlement.id)
        stepIDs.append(settlement.id)
        let tally = tally(of: settlement.id.chunk)
        switch settlement.effect {
        case .release, .split, .deadLetter(_, _, storingJobUnder: .some): tallies[tally].readsList = true
        case .ack, .delay, .deadLetter, .replace: break
        }
        switch settlement.effect {
        case .ack, .delay(_, _, isRetry: true), .deadLetter: responded += 1
        case .split: splits += 1
        case .delay, .release, .replace: break
        }
        writeHead(of: settlement, isJobGiven: job != nil)
        switch settlement.effect {
        case .ack: break
        case .delay(let job, let due, _):
            steps.append(SettleBatch.text(of: due))
            steps.append(job)
        case .deadLetter(let record, _, let field):
            steps.append(record)
            if let field {
                steps.append(field)
                steps.append(job ?? [])
            }
        case .release: steps.append(job ?? [])
        case .replace(let replacement, _): steps.append(replacement)
        case .split(let parts): write(parts, of: job)
        }
    }

    /// Removes the plain acknowledgements of these jobs, and returns the number of these jobs in the batch.
    mutating func withdraw(_ gone: Set<ClaimID>) -> Int {
        let found = ids.filter(gone.contains)
        for id in found where !stepIDs.contains(id) {
            tallies[tally(of: id.chunk)].acknowledged -= 1
            responded -= 1
        }
        return found.count
    }

    /// Settles the jobs in `held`, and writes the entries that follow. Batches are addressed in the order of their numbers, and
    /// again after a lost connection.
    mutating func address(_ held: inout JobWindow) {
        for id in ids { held.settle(id) }
        for chunk in held.compact() {
            _ = tally(of: chunk)
            compacted.append(chunk)
        }
        lists = []
        chunks = Arguments(reservingBytes: 32 * tallies.count)
        for tally in tallies {
            chunks.append(tally.chunk)
            let entry = held.entry(of: tally.chunk)
            if let entry { chunks.append(entry) } else { chunks.append("-") }
            chunks.append(tally.acknowledged)
            if let entry, entry.isEmpty || tally.readsList || compacted.contains(tally.chunk) { lists.append(tally.chunk) }
        }
    }

    /// - Parameter job: its bytes, if Redis does not keep them.
    private mutating func write(_ parts: JobParts, of job: [UInt8]?) {
        if job != nil || !parts.texts.isEmpty {
            let texts = parts.parts(of: job ?? [])
            steps.append(texts.count)
            for text in texts { steps.append(text) }
            return
        }
        steps.append(parts.ranges.count)
        steps.append(parts.prefix)
        steps.append(parts.suffix)
        for range in parts.ranges {
            // Lua counts from 1, and the last byte is included.
            steps.append(range.lowerBound + 1)
            steps.append(range.upperBound)
        }
    }

    private mutating func writeHead(of settlement: Settlement, isJobGiven: Bool) {
        let kind =
            switch settlement.effect {
            case .ack: "a"
            case .delay(_, _, let isRetry): isRetry ? "r" : "p"
            case .deadLetter(_, let isExpired, nil): isExpired ? "e" : "d"
            case .deadLetter(_, let isExpired, _): isExpired ? "E" : "D"
            case .release(let toTail): toTail ? "t" : "h"
            case .replace(_, let toTail): toTail ? "v" : "u"
            case .split(let parts): isJobGiven || !parts.texts.isEmpty ? "s" : "c"
            }
        steps.append(settlement.aside == nil ? kind : kind.uppercased())
        steps.append(settlement.id.chunk)
        steps.append(settlement.id.place)
        steps.append(settlement.feedback ?? [])
        steps.append(settlement.result?.count ?? 0)
        if settlement.result != nil { hasResults = true }
        for value in settlement.result ?? [] { steps.append(value) }
        if let aside = settlement.aside { steps.append(1 + index(ofAside: aside)) }
    }

    private mutating func index(ofAside app: String) -> Int {
        if let index = asides.firstIndex(of: app) { return index }
        asides.append(app)
        return asides.count - 1
    }

    private static func text(of due: Settlement.Due) -> String {
        switch due {
        case .at(let milliseconds): return String(milliseconds)
        case .after(let delay):
            let (seconds, attoseconds) = delay.components
            // A year is longer than any delay, and keeps the product far from overflow.
            let bounded = min(max(0, seconds), 366 * 86_400)
            return "+\(bounded * 1000 + max(0, attoseconds / 1_000_000_000_000_000))"
        }
    }
}
