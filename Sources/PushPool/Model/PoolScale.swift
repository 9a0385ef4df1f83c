/// How the next number of sessions follows from the present one.
public enum PoolScale: Sendable, Equatable {
    case constant
    /// So many more, or fewer; 1 or more.
    case incremental(Int)
    /// So many times as many, and at least one more; above 1.
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
