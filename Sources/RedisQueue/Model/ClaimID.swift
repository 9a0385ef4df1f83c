/// The number of one claim of one worker. It rises with every job that the worker claims.
public struct ClaimID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let number: UInt64

    public init(_ number: UInt64) { self.number = number }

    public var description: String { String(number) }

    public static func < (left: ClaimID, right: ClaimID) -> Bool { left.number < right.number }

    /// The id of the claim that comes `count` claims later.
    func advanced(by count: Int) -> ClaimID { ClaimID(number + UInt64(count)) }
}
