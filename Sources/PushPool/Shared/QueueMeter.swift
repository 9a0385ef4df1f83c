import Platform

/// Measures the usual payload of a queue, and the time for which its pushes waited.
struct QueueMeter {
    /// Bytes; 0 before the first push.
    private(set) var payload = 0.0
    private var past = [Duration](repeating: .zero, count: Limitation.allCases.count)
    private var present: (limit: Limitation, since: Instant)?

    /// Counts a batch.
    mutating func took(_ pushes: Int, bytes: Int) {
        guard pushes > 0 else { return }
        let mean = Double(bytes) / Double(pushes)
        payload = payload == 0 ? mean : payload + (mean - payload) / 16
    }

    /// The time for which each limit has kept pushes waiting, by `Limitation.rawValue`.
    func blocked(now: Instant) -> [Duration] {
        var blocked = past
        if let present { blocked[present.limit.rawValue] += max(.zero, now - present.since) }
        return blocked
    }

    /// From now on this limit keeps pushes waiting; `nil` for none.
    mutating func became(_ limit: Limitation?, now: Instant) {
        if let present { past[present.limit.rawValue] += max(.zero, now - present.since) }
        present = limit.map { ($0, now) }
    }

    /// A push came while every session was full: it waits because of this limit, unless others wait already.
    mutating func began(_ limit: Limitation) {
        if present == nil { present = (limit, .now) }
    }
}
