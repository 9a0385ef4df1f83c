/// The number of one claimed job of one worker. It rises with every job that the worker claims.
///
/// It consists of the number of the chunk that has the job, and the position in it.
public struct ClaimID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// A chunk has fewer positions.
    private static let positions: UInt64 = 256

    public let number: UInt64

    public init(_ number: UInt64) { self.number = number }

    init(chunk: UInt64, place: Int) { number = chunk * ClaimID.positions + UInt64(place) }

    var chunk: UInt64 { number / ClaimID.positions }
    var place: Int { Int(number % ClaimID.positions) }

    public var description: String { String(number) }

    public static func < (left: ClaimID, right: ClaimID) -> Bool { left.number < right.number }
}
