import Clocks
import PushPool

/// What APNs has lately said of single device tokens: which to leave alone for a while, and which session failed them.
///
/// Of this process alone, and bounded: what is forgotten costs one answer more, nothing else. A pure value.
struct TokenMemory {
    /// One device token of one app.
    struct Key: Hashable {
        var app: Int
        /// Lower-case hex.
        var token: String

        init(app: Int, token: String) {
            self.app = app
            self.token = token.lowercased()
        }
    }

    private struct Entry {
        var number: UInt64
        /// Newer jobs of the token wait until then.
        var pausedUntil: Instant?
        /// The session that failed it last.
        var session: SessionID
        /// Nobody asks any more.
        var end: Instant
    }

    static let most = 10_000
    /// How long after its delay a retry may come back, and still finds which session it should not meet again.
    private static let grace = Duration.seconds(60)
    /// Jobs that wait behind a retry follow it so closely: more than the 100 ms in which what is due goes back to its list, or
    /// both would go out together, on two sessions.
    static let distance = Duration.milliseconds(250)

    private var entries: [Key: Entry] = [:]
    /// Keys in the order of their entries, with the entries' numbers: an older one is no longer meant.
    private var order: [(key: Key, number: UInt64)] = []
    private var first = 0
    private var lastNumber: UInt64 = 0

    /// When the last pause ends.
    private var pausedUntil: Instant?

    var count: Int { entries.count }

    /// Whether any token is paused: while none is, nobody need ask for one.
    func hasPauses(now: Instant) -> Bool { pausedUntil.map { $0 > now } ?? false }

    /// A push to `key` failed on `session`, and goes out again after `delay`.
    mutating func failed(
        _ key: Key, on session: SessionID, delay: Duration, pauses: Bool, now: Instant
    ) {
        var pause = entries[key]?.pausedUntil
        if pauses {
            pause = max(pause ?? now, now + delay)
            pausedUntil = max(pausedUntil ?? now, now + delay)
        }
        lastNumber += 1
        entries[key] = Entry(
            number: lastNumber, pausedUntil: pause, session: session,
            end: now + delay + Self.grace)
        order.append((key, lastNumber))
        trim(now: now)
    }

    /// How long a newer job of this token has to wait; `nil` if it need not.
    func pause(_ key: Key, now: Instant) -> Duration? {
        guard let until = entries[key]?.pausedUntil, until > now else { return nil }
        return until - now + Self.distance
    }

    /// The session that a retry should not meet again.
    func session(toAvoid key: Key) -> SessionID? { entries[key]?.session }

    /// Forgets what nobody will ask for any more, and the oldest where there is too much.
    private mutating func trim(now: Instant) {
        while first < order.count {
            let (key, number) = order[first]
            if let entry = entries[key], entry.number == number {
                guard entry.end <= now || entries.count > Self.most else { break }
                entries[key] = nil
            }
            first += 1
        }
        if first > 1000 && first * 2 > order.count {
            order.removeFirst(first)
            first = 0
        }
    }
}
