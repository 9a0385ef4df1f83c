/// Settlements that travel together, numbered so that Redis applies them once.
struct SettleBatch: Equatable {
    /// 0 until it is sealed.
    var sequence: UInt64 = 0
    private(set) var ids: [ClaimID] = []
    /// Fields of plain acknowledgements: nothing to do but to remove them.
    private(set) var acknowledged = Arguments()
    /// Everything else, as `Scripts.settle` reads it.
    private(set) var steps = Arguments()
    private(set) var resent = 0
    var maybeDuplicates = 0
    /// Jobs that are replaced by their parts.
    private(set) var cuts = 0
    /// Settlements of jobs that APNs has seen: what is pushed twice if a Redis put back in time undoes this batch.
    private(set) var answered = 0

    /// Beyond either the batch is full. 256 fields are also far below the 8,000 values that Lua unpacks at once.
    static let mostJobs = 256
    static let mostBytes = 1 << 20

    var isEmpty: Bool { ids.isEmpty && maybeDuplicates == 0 }
    var isFull: Bool { ids.count >= SettleBatch.mostJobs || steps.bytes.count >= SettleBatch.mostBytes }

    /// An acknowledgement of a job that was in no crash, and nothing else.
    mutating func addAcknowledgement(_ id: ClaimID) {
        ids.append(id)
        answered += 1
        acknowledged.append(id.number)
    }

    /// - Parameters:
    ///   - field: the job's field in the in-flight hash.
    ///   - job: its bytes, where Redis keeps none (`at_most_once`).
    mutating func add(_ settlement: Settlement, field: String, job: [UInt8]?) {
        ids.append(settlement.id)
        resent += max(0, settlement.resends)
        maybeDuplicates += max(0, settlement.maybeDuplicates)
        switch settlement.effect {
        case .ack:
            answered += 1
            if settlement.feedback == nil && settlement.result == nil { return acknowledged.append(field) }
        case .delay(_, _, isRetry: true), .deadLetter: answered += 1
        case .split: cuts += 1
        case .delay, .release, .replace: break
        }
        writeHead(of: settlement, field: field)
        switch settlement.effect {
        case .ack: break
        case .delay(let job, let due, _):
            steps.append(SettleBatch.text(of: due))
            steps.append(job)
        case .deadLetter(let record, _): steps.append(record)
        case .release: steps.append(job ?? [])
        case .replace(let replacement, _): steps.append(replacement)
        case .split(let parts):
            steps.append(parts.count)
            for part in parts { steps.append(part) }
        }
    }

    private mutating func writeHead(of settlement: Settlement, field: String) {
        let kind =
            switch settlement.effect {
            case .ack: "a"
            case .delay(_, _, let isRetry): isRetry ? "r" : "p"
            case .deadLetter(_, let isExpired): isExpired ? "e" : "d"
            case .release(let toTail): toTail ? "t" : "h"
            case .replace(_, let toTail): toTail ? "v" : "u"
            case .split: "s"
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
            // A year is more than any delay means, and keeps the product far from overflow.
            let bounded = min(max(0, seconds), 366 * 86_400)
            return "+\(bounded * 1000 + max(0, attoseconds / 1_000_000_000_000_000))"
        }
    }
}
