/// One session of the process. Ids count dials over all pools from 1 and are never reused.
public struct SessionID: Sendable, Hashable, Comparable {
    public let number: UInt64
    public init(_ number: UInt64) { self.number = number }
    public static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}
