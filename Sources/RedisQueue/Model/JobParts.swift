/// The parts of a job: ranges of its bytes, each between the same two texts. Redis makes the parts of the job that it keeps, so
/// that a job of megabytes does not cross the link again.
public struct JobParts: Sendable, Equatable {
    public var prefix: [UInt8]
    /// In the order in which the parts are claimed. None is empty.
    public var ranges: [Range<Int>]
    public var suffix: [UInt8]

    public init(prefix: [UInt8], ranges: [Range<Int>], suffix: [UInt8]) {
        (self.prefix, self.ranges, self.suffix) = (prefix, ranges, suffix)
    }

    /// Bytes of all parts together.
    public var byteCount: Int { ranges.reduce(0) { $0 + prefix.count + $1.count + suffix.count } }

    /// Returns the parts of `job`.
    public func parts(of job: [UInt8]) -> [[UInt8]] {
        ranges.map { prefix + job[$0.clamped(to: job.indices)] + suffix }
    }
}
