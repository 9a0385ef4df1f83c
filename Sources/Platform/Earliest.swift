/// The earliest of several instants, some of which may be absent.
public struct Earliest {
    public var instant: Instant?

    @inlinable
    public init(_ instant: Instant? = nil) { self.instant = instant }

    @inlinable
    public mutating func consider(_ other: Instant?) {
        guard let other else { return }
        if let instant, instant <= other { return }
        instant = other
    }
}
