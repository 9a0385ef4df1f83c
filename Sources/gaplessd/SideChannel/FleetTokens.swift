import Platform
import PushPool
import RedisQueue

/// Shares provider tokens with other machines through Redis, on a thread and short connections of its own.
///
/// Nothing waits for this thread for longer than `TokenSharing` allows: without Redis, each process keeps its own tokens.
final class FleetTokens: Sendable {
    /// The wait after a failure, and while another process signs a token.
    private static let pause = (failure: Duration.seconds(5), minting: Duration.milliseconds(20))
    /// More rounds than any process needs to sign a token.
    private static let mostRounds = 500

    private struct State {
        var settings: QueueSettings
        var tls: TLSContext?
        var isRunning = false
        var isStopped = false
    }

    private let exchange: ProviderTokenExchange
    private let log: Log
    private let start: Fleet.ThreadStart
    private let state: Locked<State>

    init(_ configuration: Configuration, log: Log, start: @escaping Fleet.ThreadStart) throws(ThreadError) {
        (self.log, self.start) = (log, start)
        exchange = ProviderTokenExchange(wanted: try WakeUp(thread: "provider tokens"))
        state = Locked(State(settings: configuration.settings.queues[0], tls: configuration.redisTLS))
        try prepare(configuration)
        follow(configuration)
    }

    /// Starts the thread, if an app has a signing key.
    func prepare(_ configuration: Configuration) throws(ThreadError) {
        guard configuration.credentials.contains(where: { $0.credential.map { $0.certificate == nil } ?? false }) else { return }
        let starts = state.withLock { state in
            defer { state.isRunning = true }
            return !state.isRunning
        }
        do throws(ThreadError) {
            if starts { try start("provider tokens") { self.run() } }
        } catch {
            state.withLock { $0.isRunning = false }
            throw error
        }
    }

    /// Adopts the settings and the credentials, after `prepare`.
    func follow(_ configuration: Configuration) {
        for app in configuration.credentials { app.credential?.shareTokens(through: exchange) }
        state.withLock { ($0.settings, $0.tls) = (configuration.settings.queues[0], configuration.redisTLS) }
    }

    /// Ends the thread when it wakes next.
    func stop() {
        state.withLock { $0.isStopped = true }
        exchange.wanted.ring()
    }

    private func run() {
        var poller = Poller()
        var hasComplained = false
        while true {
            let current = state.withLock { $0 }
            if current.isStopped { return }
            do throws(RedisError) {
                let requests = exchange.requests()
                if !requests.isEmpty { try send(requests, current) }
                sleep(&poller, atMost: ProviderTokenExchange.interval)
            } catch {
                exchange.failed()
                // The lists report every other failure of Redis.
                if case .reply(let reply) = error, reply.isMissingRight, !hasComplained {
                    log.warning(
                        "Provider tokens are not shared with other machines: \(error). This process uses its own.",
                        .tokenNotShared)
                    hasComplained = true
                }
                sleep(&poller, atMost: FleetTokens.pause.failure)
            }
        }
    }

    /// Sends the requests on a new connection, and again while a token is being signed.
    private func send(_ first: [ProviderTokenExchange.Request], _ current: State) throws(RedisError) {
        var client = try RedisClient(settings: current.settings, tls: current.tls)
        let tokens = SharedTokens(Keys(list: current.settings.list), between: ProviderTokenExchange.between)
        var poller = Poller()
        var requests = first
        for _ in 1...FleetTokens.mostRounds where !requests.isEmpty && !state.withLock({ $0.isStopped }) {
            var (waits, mints) = (false, false)
            for request in requests {
                let sentAt = Instant.now
                let offer = request.offer.map { SharedTokens.Offer(sealed: $0.sealed, id: $0.id, age: $0.age) }
                let reply = try tokens.ask(
                    request.name, oldest: request.oldest, offer: offer, refused: request.refused, &client)
                (waits, mints) = (waits || reply == .wait, mints || reply == .mint)
                exchange.received(.init(reply), to: request, sentAt: sentAt)
            }
            guard waits || mints else { return }
            if waits { poller.wait(until: .now + FleetTokens.pause.minting) }
            requests = exchange.requests()
        }
    }

    private func sleep(_ poller: inout Poller, atMost limit: Duration) {
        poller.reset()
        poller.add(exchange.wanted.descriptor, for: .read)
        poller.wait(until: .now + limit)
        exchange.wanted.listen()
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
