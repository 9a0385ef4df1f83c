internal import Platform

/// One open connection, as far as it matters for the choice of the one that makes room for a new connection.
struct ConnectionShare {
    var client: IPAddress?
    /// Whether its request is complete and the response not yet written.
    var isBusy: Bool

    /// The place of the connection to close: of the client with the most connections, so that no client can keep others out; the
    /// oldest idle one, or the oldest if all are busy. `nil` without connections.
    ///
    /// - Parameter shares: oldest first.
    static func victim(of shares: [ConnectionShare]) -> Int? {
        var counts: [IPAddress?: Int] = [:]
        for share in shares { counts[share.client, default: 0] += 1 }
        let most = counts.values.max()
        let candidates = shares.indices.filter { counts[shares[$0].client] == most }
        return candidates.first { !shares[$0].isBusy } ?? candidates.first
    }
}

extension ConnectionShare {
    init(_ connection: HTTPConnection) {
        self.init(client: connection.client, isBusy: connection.phase == .waiting || connection.phase == .writing)
    }
}
