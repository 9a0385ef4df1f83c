/// How long to wait before the next dial: 50 ms, doubling to 2 s, each between half of it and the whole, so that the workers
/// of a Redis that comes back do not all come at once.
struct Redial {
    private var failures = 0
    private var state: UInt64

    static let shortest = Duration.milliseconds(50)
    static let longest = Duration.seconds(2)

    /// - Parameter seed: any number; equal seeds wait alike.
    init(seed: UInt64) { state = seed | 1 }

    mutating func succeeded() { failures = 0 }

    mutating func nextPause() -> Duration {
        let whole = min(Redial.longest, Redial.shortest * (1 << min(failures, 6)))
        failures += 1
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return whole / 2 + whole * Int(state % 1024) / 2048
    }
}
