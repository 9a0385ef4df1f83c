/// Calls that await their reply. Claims count their jobs, and settlements are numbered; they are not here.
struct OutstandingCalls: OptionSet {
    let rawValue: UInt8

    static let beat = OutstandingCalls(rawValue: 1 << 0)
    static let reap = OutstandingCalls(rawValue: 1 << 1)
    static let promotion = OutstandingCalls(rawValue: 1 << 2)
    static let inspection = OutstandingCalls(rawValue: 1 << 3)
    static let wait = OutstandingCalls(rawValue: 1 << 4)
    static let piggybackedClaim = OutstandingCalls(rawValue: 1 << 5)
}
