/// The value of `pool_size`.
enum PoolSize: Sendable, Equatable {
    case fixed(Int)
    case automatic
}
