/// A provider token that was found good.
struct ProviderToken {
    var key: ProviderKey
    /// Unix seconds.
    var issuedAt: Int64
}
