public import Platform

/// Leases windows of time for the rate limits that all daemons of a list keep together. In each window one daemon alone sends.
///
/// Redis' clock orders the windows. The owner's clock is compared with it at each reply: the shortest time between the two
/// readings is the best estimate of their difference.
public struct RateLeases: Sendable {
    public enum Reply: Sendable, Equatable {
        case window(start: Instant)
        /// Other daemons have leased the near future: ask again later.
        case later
    }

    /// Microseconds. A window further ahead is not leased, so that a daemon that asks later does not wait for long.
    private static let horizon: Int64 = 1_000_000
    /// Microseconds. A clock of Redis that was set shows as a larger change of the difference.
    private static let largestDrift: Int64 = 1_000_000

    private let keys: Keys
    private let anchor: Instant
    /// The owner's clock since `anchor` less Redis' clock, in microseconds.
    private var difference: Int64?

    public init(_ keys: Keys, now: Instant) {
        self.keys = keys
        anchor = now
    }

    /// Leases the next free window of this length. Blocks for one round trip.
    public mutating func lease(_ length: Duration, _ client: inout RedisClient) throws(RedisError) -> Reply {
        let microseconds = RateLeases.microseconds(length)
        let arguments = [microseconds, RateLeases.horizon].map { String($0) }
        let reply = try client.evaluate(RateLeases.script, [keys.nothing, keys.pace], arguments)
        let received = Instant.now
        guard let items = reply.items, items.count == 2, let clock = items[0].integer, let start = items[1].integer,
            (0..<1 << 53).contains(clock), (-1..<1 << 53).contains(start)
        else { throw .notRedis("a lease without a time") }
        let difference = follow(RateLeases.microseconds(received - anchor) - clock)
        return start < 0 ? .later : .window(start: anchor + .microseconds(start + difference))
    }

    /// The clocks drift apart slowly, so the estimate grows by a sixteenth of the change.
    private mutating func follow(_ measured: Int64) -> Int64 {
        var estimate = difference ?? measured
        let change = measured - estimate
        estimate = change < 0 || change > RateLeases.largestDrift ? measured : estimate + change / 16
        difference = estimate
        return estimate
    }

    private static func microseconds(_ duration: Duration) -> Int64 {
        let parts = duration.components
        return min(parts.seconds, 1 << 32) * 1_000_000 + parts.attoseconds / 1_000_000_000_000
    }

    /// KEYS: nothing, pace. ARGV: the length and the horizon in microseconds.
    ///
    /// Replies Redis' clock and the start of the window, or -1 if it lies beyond the horizon. An end that is later than the last
    /// window and the horizon explain is ignored: Redis' clock was set back.
    private static let script = """
        redis.call('DEL', KEYS[1])
        local time = redis.call('TIME')
        local now = time[1] * 1000000 + time[2]
        local length, horizon = tonumber(ARGV[1]), tonumber(ARGV[2])
        local last = redis.call('HMGET', KEYS[2], 'next', 'length')
        local start = tonumber(last[1] or 0) or 0
        local explained = 2 * math.max(tonumber(last[2] or 0) or 0, horizon)
        if start < now or start > now + explained then start = now end
        if start > now + math.max(length, horizon) then return {now, -1} end
        redis.call('HSET', KEYS[2], 'next', string.format('%.0f', start + length), 'length', ARGV[1])
        return {now, start}
        """
}

/// The provider tokens that processes on several machines share: one for each signing key, encrypted by their owners.
///
/// Redis' clock measures their age, and one process at a time may sign a token. Without an offer of its own a process never
/// changes a token.
public struct SharedTokens: Sendable {
    public struct Offer: Sendable, Equatable {
        public var sealed: [UInt8]
        /// A name that does not reveal the token.
        public var id: String
        public var age: Duration

        public init(sealed: [UInt8], id: String, age: Duration) { (self.sealed, self.id, self.age) = (sealed, id, age) }
    }

    public enum Reply: Sendable, Equatable {
        case token([UInt8], age: Duration)
        /// The asking process signs a token and offers it.
        case mint
        /// Another process is signing one.
        case wait
        case none
    }

    /// The time that a process has to sign a token, in milliseconds: then another one may.
    private static let lease = 5000

    private let keys: Keys
    /// The least time between two tokens of a key.
    private let between: Duration
    private let asker = String(UInt64.random(in: .min ... .max), radix: 16)

    public init(_ keys: Keys, between: Duration) { (self.keys, self.between) = (keys, between) }

    /// Stores an offer that is younger than the token in Redis, and returns the token. Blocks for one round trip.
    ///
    /// - Parameters:
    ///   - name: identifies the signing key.
    ///   - oldest: a token of this age or older is due for a new one; `nil` asks for no new one.
    ///   - refused: the id of a token that APNs has called expired.
    public func ask(
        _ name: String, oldest: Duration?, offer: Offer?, refused: String?, _ client: inout RedisClient
    ) throws(RedisError) -> Reply {
        let numbers = [oldest.map(SharedTokens.milliseconds) ?? -1, SharedTokens.milliseconds(between), SharedTokens.lease]
        let head = [name, asker] + numbers.map(String.init)
        let age = String(SharedTokens.milliseconds(offer?.age ?? .zero))
        let tail = [Array((refused ?? "").utf8), offer?.sealed ?? [], Array((offer?.id ?? "").utf8), Array(age.utf8)]
        let touched = [keys.nothing, keys.providerTokens]
        let reply = try client.evaluate(SharedTokens.script, touched, head.map { Array($0.utf8) } + tail)
        guard let items = reply.items, items.count == 3 else { throw .notRedis("a reply without a provider token") }
        switch items[0].text {
        case "mint": return .mint
        case "wait": return .wait
        case "none": return .none
        case "token":
            guard let sealed = items[1].bytes, let age = items[2].integer else { break }
            return .token(sealed, age: .milliseconds(age))
        default: break
        }
        throw .notRedis("a reply without a provider token")
    }

    private static func milliseconds(_ duration: Duration) -> Int {
        let parts = duration.components
        return Int(min(parts.seconds, 1 << 32)) * 1000 + Int(parts.attoseconds / 1_000_000_000_000_000)
    }

    /// KEYS: nothing, provider tokens. ARGV: name, asker, oldest (-1: none is due), least time between two, lease, id of the
    /// refused token, offered token, its id, its age. All times in milliseconds.
    ///
    /// A token that Redis' clock dates in the future becomes new: the clock was set back. A token is replaced early only once in
    /// the least time, and only after APNs has called it expired.
    private static let script = """
        redis.call('DEL', KEYS[1])
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local name, asker = ARGV[1], ARGV[2]
        local oldest, between, lease = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
        local refused, offer, offerId = ARGV[6], ARGV[7], ARGV[8]
        local key = KEYS[2]
        local function text(number) return string.format('%.0f', number) end
        local known = redis.call('HMGET', key, name .. ':token', name .. ':id', name .. ':minted', name .. ':early',
          name .. ':until', name .. ':asker')
        local token, id, minted, early = known[1], known[2], tonumber(known[3] or ''), tonumber(known[4] or '')
        local leased, holder = tonumber(known[5] or ''), known[6]
        if not minted then token = false end
        if token and minted > now then
          minted = now
          redis.call('HSET', key, name .. ':minted', text(minted))
        end
        if offer ~= '' then
          local offered = now - math.max(0, tonumber(ARGV[9]))
          if not token or (offerId ~= id and (offered > minted or (offered == minted and offerId > id))) then
            if token and offered - minted < between then
              early = now
              redis.call('HSET', key, name .. ':early', text(now))
            end
            token, id, minted = offer, offerId, offered
            redis.call('HSET', key, name .. ':token', token, name .. ':id', id, name .. ':minted', text(minted))
          end
          if holder == asker then
            redis.call('HDEL', key, name .. ':until', name .. ':asker')
            leased = nil
          end
        end
        local age = token and now - minted
        local isRefused = token and refused ~= '' and id == refused
        if isRefused and age < between and early and early <= now and now - early < between then isRefused = false end
        if token and (oldest < 0 or age < oldest) and not isRefused then return {'token', token, age} end
        if oldest < 0 then return {'none', '', 0} end
        if leased and holder ~= asker and leased > now and leased - now <= lease then return {'wait', '', 0} end
        redis.call('HSET', key, name .. ':until', text(now + lease), name .. ':asker', asker)
        return {'mint', '', 0}
        """
}

/// The last acceptances of apps by APNs, which all daemons of a list remember beside it: a daemon that starts, or reloads its
/// settings, does not doubt an app that APNs has accepted within a day.
///
/// A field is the fingerprint of a credential, a server and a topic, and its value the Unix seconds of Redis' clock. A field that
/// is older than a day has no effect, and is removed.
public enum AcceptanceMemory {
    /// Fields that are kept: beyond them the oldest are removed.
    public static let capacity = 10_000
    public static let lifetime = Duration.seconds(86_400)

    /// Records acceptances and returns what Redis remembers. Blocks for one round trip.
    ///
    /// - Parameters:
    ///   - accepted: the time since the last acceptance, by fingerprint.
    ///   - wanted: fingerprints to look up.
    ///   - removesOld: whether to look for fields that are too old. They are also removed if there are too many fields.
    /// - Returns: the time since the last acceptance, for those of `wanted` that are remembered.
    public static func exchange(
        _ accepted: [String: Duration], wanted: [String], removesOld: Bool, _ keys: Keys, _ client: inout RedisClient
    ) throws(RedisError) -> [String: Duration] {
        let seconds = { (duration: Duration) in String(max(0, duration.components.seconds)) }
        let head = [String(capacity), seconds(lifetime), removesOld ? "1" : "0", String(accepted.count)]
        let arguments = head + accepted.flatMap { [$0.key, seconds($0.value)] } + wanted
        guard let ages = try client.evaluate(script, [keys.nothing, keys.accepted], arguments).items, ages.count == wanted.count
        else {
            throw .notRedis("a reply without the ages of acceptances")
        }
        var known: [String: Duration] = [:]
        for (fingerprint, age) in zip(wanted, ages) {
            if let age = age.integer, age >= 0 { known[fingerprint] = .seconds(age) }
        }
        return known
    }

    /// KEYS: nothing, accepted. ARGV: most fields, lifetime, whether to remove old fields, number of acceptances, a fingerprint
    /// and an age for each, fingerprints to look up. All times in seconds.
    ///
    /// A field that Redis' clock dates in the future becomes new: the clock was set back.
    private static let script = """
        redis.call('DEL', KEYS[1])
        local key, most, lifetime = KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2])
        local now = tonumber(redis.call('TIME')[1])
        local first = 5 + 2 * tonumber(ARGV[4])
        for index = 5, first - 1, 2 do
          local at, known = now - tonumber(ARGV[index + 1]), tonumber(redis.call('HGET', key, ARGV[index]) or '')
          if not known or known < at or known > now then redis.call('HSET', key, ARGV[index], string.format('%.0f', at)) end
        end
        if ARGV[3] == '1' or redis.call('HLEN', key) > most then
          local names, kept = redis.call('HKEYS', key), {}
          for from = 1, #names, 1000 do
            local to = math.min(from + 999, #names)
            local times = redis.call('HMGET', key, unpack(names, from, to))
            for index = from, to do
              local at = tonumber(times[index - from + 1] or '')
              if not at or now - at >= lifetime then
                redis.call('HDEL', key, names[index])
              else
                kept[#kept + 1] = {at, names[index]}
              end
            end
          end
          if #kept > most then
            table.sort(kept, function(one, other) return one[1] < other[1] end)
            for index = 1, #kept - math.floor(most * 0.9) do redis.call('HDEL', key, kept[index][2]) end
          end
        end
        local ages = {}
        for index = first, #ARGV do
          local at = tonumber(redis.call('HGET', key, ARGV[index]) or '')
          if at and at > now then
            at = now
            redis.call('HSET', key, ARGV[index], string.format('%.0f', at))
          end
          ages[#ages + 1] = at and now - at < lifetime and now - at or -1
        end
        return ages
        """
}

extension AppRecords {
    /// Records apps that this daemon has. Blocks for one round trip.
    ///
    /// - Parameter apps: names with topics, which may be empty.
    /// - Returns: the number of fields.
    public static func write(_ apps: [String: String], _ keys: Keys, _ client: inout RedisClient) throws(RedisError) -> Int {
        try write(apps, capacity: capacity, keys, &client)
    }

    static func write(
        _ apps: [String: String], capacity: Int, _ keys: Keys, _ client: inout RedisClient
    ) throws(RedisError) -> Int {
        let arguments = [String(capacity)] + apps.flatMap { [$0.key, $0.value] }
        guard let count = try client.evaluate(writeScript, [keys.nothing, keys.apps], arguments).count else {
            throw .notRedis("a reply without the number of apps")
        }
        return count
    }

    /// The apps that the daemons of the list have had, with their topics. Blocks for one round trip.
    public static func read(_ keys: Keys, _ client: inout RedisClient) throws(RedisError) -> [String: String] {
        topics(try client.evaluate(readScript, [keys.apps], [String]()).items ?? [])
    }
}
