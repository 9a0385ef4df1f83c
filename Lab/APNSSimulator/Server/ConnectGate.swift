import Clocks

/// Counts new connections, and shuts the door for a while when there are too many.
struct ConnectGate {
    private var recent: [Instant] = []
    private var shutUntil: Instant?

    mutating func admits(_ limit: Behaviour.ConnectLimit, now: Instant) -> Bool {
        if let shutUntil, now < shutUntil { return false }
        shutUntil = nil
        recent.removeAll { now - $0 >= limit.window }
        guard recent.count < limit.count else {
            shutUntil = now + limit.block
            recent.removeAll()
            return false
        }
        recent.append(now)
        return true
    }
}
