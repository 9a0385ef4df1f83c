/// Settlements that are sent together, numbered so that Redis applies them once.
struct SettleBatch: Equatable {
    /// 0 until it is sealed.
    var sequence: UInt64 = 0
    private(set) var ids: [ClaimID] = []
    /// The fields of plain acknowledgements, which only have to be removed.
    private(set) var acknowledged = Arguments()
    /// Everything else, as `Scripts.settle` reads it.
    private(set) var steps = Arguments()
    private(set) var resent = 0
    var maybeDuplicates = 0
    /// The number of jobs that are replaced by their parts.
    private(set) var splits = 0
    /// The number of jobs to which APNs has responded. They are pushed twice if Redis returns to a state before this batch.
    private(set) var responded = 0

    /// A batch is full beyond either. 256 fields are far below the 8,000 values that Lua can unpack at once.
    static let mostJobs = 256
    static let mostBytes = 1 << 20

    var isEmpty: Bool { ids.isEmpty && maybeDuplicates == 0 }
    var isFull: Bool { ids.count >= SettleBatch.mostJobs || steps.bytes.count >= SettleBatch.mostBytes }

    /// Adds an acknowledgement of a job that was in no crash, without feedback and result.
    mutating func addAcknowledgement(_ id: ClaimID) {
        ids.append(id)
        responded += 1
        acknowledged.append(id.number)
    }

    /// - Parameters:
    ///   - field: the job's field in the in-flight hash.
    ///   - job: its bytes, if Redis does not keep them (`at_most_once`).
    mutating func add(_ settlement: Settlement, field: String, job: [UInt8]?) {
        ids.append(settlement.id)
        resent += max(0, settlement.resends)
        maybeDuplicates += max(0, settlement.maybeDuplicates)
        switch settlement.effect {
        case .ack:
            responded += 1
            if settlement.feedback == nil && settlement.result == nil { return acknowledged.append(field) }
        case .delay(_, _, isRetry: true), .deadLetter: responded += 1
        case .split: splits += 1
        case .delay, .release, .replace: break
        }
        writeHead(of: settlement, field: field, isJobGiven: job != nil)
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

    /// - Parameter job: its bytes, if Redis does not keep them.
    private mutating func write(_ parts: JobParts, of job: [UInt8]?) {
        steps.append(parts.ranges.count)
        if let job {
            for part in parts.parts(of: job) { steps.append(part) }
            return
        }
        steps.append(parts.prefix)
        steps.append(parts.suffix)
        for range in parts.ranges {
            // Lua counts from 1, and the last byte is included.
            steps.append(range.lowerBound + 1)
            steps.append(range.upperBound)
        }
    }

    private mutating func writeHead(of settlement: Settlement, field: String, isJobGiven: Bool) {
        let kind =
            switch settlement.effect {
            case .ack: "a"
            case .delay(_, _, let isRetry): isRetry ? "r" : "p"
            case .deadLetter(_, let isExpired, nil): isExpired ? "e" : "d"
            case .deadLetter(_, let isExpired, _): isExpired ? "E" : "D"
            case .release(let toTail): toTail ? "t" : "h"
            case .replace(_, let toTail): toTail ? "v" : "u"
            case .split: isJobGiven ? "s" : "c"
            }
        steps.append(kind)
        steps.append(field)
        steps.append(settlement.feedback ?? [])
        steps.append(settlement.result?.count ?? 0)
        for value in settlement.result ?? [] { steps.append(value) }
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
