/// The parts of a job: ranges of its bytes, each between the same two texts. Redis makes the parts of the job that it keeps, so
/// that a job of megabytes does not cross the link again. Parts of other bytes are given whole.
public struct JobParts: Sendable, Equatable {
    public var prefix: [UInt8]
    /// In the order in which the parts are claimed. None is empty.
    public var ranges: [Range<Int>]
    public var suffix: [UInt8]
    /// The parts, if they are not ranges of the job.
    public var texts: [[UInt8]] = []

    public init(prefix: [UInt8], ranges: [Range<Int>], suffix: [UInt8]) {
        (self.prefix, self.ranges, self.suffix) = (prefix, ranges, suffix)
    }

    public init(texts: [[UInt8]]) {
        self.init(prefix: [], ranges: [], suffix: [])
        self.texts = texts
    }

    /// Bytes of all parts together.
    public var byteCount: Int {
        ranges.reduce(0) { $0 + prefix.count + $1.count + suffix.count } + texts.reduce(0) { $0 + $1.count }
    }

    /// Returns the parts of `job`.
    public func parts(of job: [UInt8]) -> [[UInt8]] {
        ranges.map { prefix + job[$0.clamped(to: job.indices)] + suffix } + texts
    }
}
