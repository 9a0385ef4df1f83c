import Platform
import PushPool
import RedisQueue

/// Shares provider tokens with other machines through Redis. Nothing waits for it for longer than `TokenSharing` allows: without
/// Redis, each process keeps its own tokens.
struct FleetTokens: SideDuty {
    /// The wait while another process signs a token.
    private static let pause = Duration.milliseconds(20)
    /// More rounds than any process needs to sign a token.
    private static let mostRounds = 500

    private let exchange: ProviderTokenExchange
    private let tokens: SharedTokens
    private let log: Log
    /// The requests of this round that were not sent.
    private var pending: [ProviderTokenExchange.Request] = []
    /// Whether a reply of this round asks to wait, or to sign a token.
    private var (waits, mints) = (false, false)
    private var rounds = 0
    private var next = Instant.now
    private var hasComplained = false

    init(_ exchange: ProviderTokenExchange, _ keys: Keys, log: Log) {
        (self.exchange, self.log) = (exchange, log)
        tokens = SharedTokens(keys, between: ProviderTokenExchange.between)
    }

    var wanted: WakeUp? { exchange.wanted }

    mutating func due(isWanted: Bool, now: Instant) -> Instant? {
        if pending.isEmpty, isWanted || next <= now {
            pending = exchange.requests()
            if pending.isEmpty { (next, rounds) = (now + ProviderTokenExchange.interval, 0) }
        }
        return pending.isEmpty ? next : now
    }

    mutating func step(_ client: inout RedisClient, connection: Int) throws(RedisError) {
        guard let request = pending.first else { return }
        let sentAt = Instant.now
        let offer = request.offer.map { SharedTokens.Offer(sealed: $0.sealed, id: $0.id, age: $0.age) }
        let reply = try tokens.ask(request.name, oldest: request.oldest, offer: offer, refused: request.refused, &client)
        pending.removeFirst()
        (waits, mints) = (waits || reply == .wait, mints || reply == .mint)
        exchange.received(.init(reply), to: request, sentAt: sentAt)
        if pending.isEmpty { endRound() }
    }

    /// The requests are sent again while a token is being signed.
    private mutating func endRound() {
        rounds = waits || mints ? rounds + 1 : 0
        let isLast = rounds == 0 || rounds >= Self.mostRounds
        if isLast { rounds = 0 }
        next = .now + (isLast ? ProviderTokenExchange.interval : waits ? Self.pause : .zero)
        (waits, mints) = (false, false)
    }

    mutating func failed(_ error: RedisError) {
        exchange.failed()
        (pending, waits, mints, rounds, next) = ([], false, false, 0, .now)
        // The lists report every other failure of Redis.
        guard case .reply(let reply) = error, reply.isMissingRight, !hasComplained else { return }
        hasComplained = true
        log.warning(
            "Provider tokens are not shared with other machines: \(error). This process uses its own.", .tokenNotShared)
    }
}

extension ProviderTokenExchange.Reply {
    fileprivate init(_ reply: SharedTokens.Reply) {
        switch reply {
        case .token(let sealed, let age): self = .token(sealed: sealed, age: age)
        case .mint: self = .mint
        case .wait: self = .wait
        case .none: self = .none
        }
    }
}
