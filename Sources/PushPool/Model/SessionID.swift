/// One session of the process, numbered from 1 in the order of their dials over all pools; never used twice.
public struct SessionID: Sendable, Hashable, Comparable {
    public let number: UInt64
    public init(_ number: UInt64) { self.number = number }
    public static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}
