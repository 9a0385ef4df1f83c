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
        let head = ["EVAL", SharedTokens.script, "2", keys.nothing, keys.providerTokens, name, asker] + numbers.map(String.init)
        let age = String(SharedTokens.milliseconds(offer?.age ?? .zero))
        let tail = [Array((refused ?? "").utf8), offer?.sealed ?? [], Array((offer?.id ?? "").utf8), Array(age.utf8)]
        let reply = try client.command(head.map { Array($0.utf8) } + tail)
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
