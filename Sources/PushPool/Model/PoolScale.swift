/// The step from one number of sessions to the next.
public enum PoolScale: Sendable, Equatable {
    case constant
    /// This many more or fewer, at least 1.
    case incremental(Int)
    /// This many times as many, and at least one more; above 1.
    case exponential(Double)

    func larger(than count: Int) -> Int {
        switch self {
        case .constant: count
        case .incremental(let step): count + step
        case .exponential(let factor): max(count + 1, Int(Double(count) * factor))
        }
    }

    func smaller(than count: Int) -> Int {
        switch self {
        case .constant: count
        case .incremental(let step): count - step
        case .exponential(let factor): min(count - 1, Int(Double(count) / factor))
        }
    }
}
