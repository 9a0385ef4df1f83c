/// A verified provider token.
struct ProviderToken {
    var key: ProviderKey
    /// Unix seconds.
    var issuedAt: Int64
}
