import Platform

/// Counts new connections, and rejects all for a time after the limit is exceeded.
struct ConnectGate {
    private var recent: [Instant] = []
    private var closedUntil: Instant?

    mutating func admits(_ limit: Behaviour.ConnectLimit, now: Instant) -> Bool {
        if let closedUntil, now < closedUntil { return false }
        closedUntil = nil
        recent.removeAll { now - $0 >= limit.window }
        guard recent.count < limit.count else {
            closedUntil = now + limit.block
            recent.removeAll()
            return false
        }
        recent.append(now)
        return true
    }
}
