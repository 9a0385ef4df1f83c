internal import DequeModule
internal import Platform

/// Finds the server to dial: at once, or by asking Sentinels over connections of its own.
///
/// A thin shell: `ServerLocator` decides. Sentinels are reached by TLS if Redis is. They get no password unless they ask for one,
/// and then their own, or that of Redis if they have none.
struct ServerSearch: ~Copyable {
    enum Result {
        /// At least one address.
        case found(Endpoint, [SocketAddress], attempt: Int)
        case failed(RedisError)
    }

    private enum Question { case password, master }

    private var settings: QueueSettings
    private(set) var tls: TLSContext?
    var locator: ServerLocator
    private var lookup: AddressLookup
    /// The step that waits for the addresses of its server.
    private var lookingUp: ServerLocator.Step?
    private var sentinel: RedisConnection<Question>?
    private var hasSentPassword = false
    private var incoming = Deque<RedisConnection<Question>.Incoming>()

    /// - Parameter resolver: `nil` to look names up in place, which blocks.
    init(_ settings: QueueSettings, tls: TLSContext?, resolver: NameResolver?) {
        self.settings = settings
        self.tls = tls
        locator = ServerLocator(settings.server)
        lookup = AddressLookup(resolver)
    }

    mutating func adopt(_ settings: QueueSettings, tls: TLSContext?) {
        self.settings.adopt(settings)
        self.tls = tls
    }

    /// Begins a search. `nil` while names are looked up or Sentinels are asked: then turns are needed.
    mutating func begin(now: Instant) -> Result? {
        follow(locator.begin(), now: now)
    }

    mutating func cancel() {
        sentinel = nil
        lookingUp = nil
    }

    private var isAsking: Bool {
        switch sentinel {
        case .some: true
        case .none: false
        }
    }

    mutating func addInterest(to poller: inout Poller) {
        if lookingUp != nil { lookup.addInterest(to: &poller) }
        sentinel?.addInterest(to: &poller)
    }

    var deadline: Instant? {
        mutating get { lookingUp != nil ? lookup.deadline : sentinel?.deadline ?? nil }
    }

    /// - Parameter poller: the one that `addInterest` was last called with.
    mutating func turn(_ poller: borrowing Poller, now: Instant) -> Result? {
        if lookingUp != nil { return lookup.answer(now: now).flatMap { proceed(with: $0, now: now) } }
        if !isAsking { return nil }
        do throws(RedisError) {
            try sentinel?.receive(poller, now: now, into: &incoming)
            let replies = incoming
            incoming = []
            for reply in replies {
                if let master = try understand(reply, now: now) {
                    sentinel = nil
                    return follow(locator.named(master), now: now)
                }
            }
            try sentinel?.flush(now: now)
            return nil
        } catch {
            incoming = []
            return follow(locator.sentinelFailed(error), now: now)
        }
    }

    private mutating func follow(_ step: ServerLocator.Step, now: Instant) -> Result? {
        sentinel = nil
        switch step {
        case .fail(let error): return .failed(error)
        case .dial(let endpoint, _), .ask(let endpoint, _):
            lookingUp = step
            let answer = lookup.begin(endpoint, atMost: timeout(of: step), now: now)
            return answer.flatMap { proceed(with: $0, now: now) }
        }
    }

    /// Half of the timeout for a Sentinel: if several are silent, the last master is still reached within a lease.
    private func timeout(of step: ServerLocator.Step) -> Duration {
        if case .ask = step { settings.timeout / 2 } else { settings.timeout }
    }

    /// Continues the step whose addresses were looked up.
    private mutating func proceed(with answer: AddressLookup.Answer, now: Instant) -> Result? {
        guard let step = lookingUp.take() else { return nil }
        do throws(RedisError) {
            let addresses = try answer.get()
            switch step {
            case .fail(let error): throw error
            case .dial(let endpoint, let attempt): return .found(endpoint, addresses, attempt: attempt)
            case .ask(let endpoint, let attempt):
                sentinel = try RedisConnection(
                    to: addresses[attempt % addresses.count], of: endpoint, tls: tls, timeout: timeout(of: step), now: now)
                hasSentPassword = false
                ask(now: now)
                return nil
            }
        } catch {
            if case .ask = step { return follow(locator.sentinelFailed(error), now: now) }
            return .failed(error)
        }
    }

    private mutating func ask(now: Instant) {
        let question = Arguments(["SENTINEL", "get-master-addr-by-name", locator.masterName])
        sentinel?.send(.master, now: now) { $0.appendCommand(question) }
    }

    /// Returns the master, once it is named.
    private mutating func understand(
        _ incoming: RedisConnection<Question>.Incoming, now: Instant
    ) throws(RedisError) -> Endpoint? {
        switch (incoming.sent.tag, incoming.reply) {
        case (.master, .array(let parts)):
            guard parts.count == 2, let host = parts[0].text, let port = parts[1].text.flatMap({ Int($0) }),
                let master = Endpoint(host: host, port: port, besides: nil)
            else { throw .notRedis("a reply without the address of a master") }
            return master
        case (.master, .null): throw .unknownMaster
        case (.master, .error(let error)):
            // Without a password, the user "default" may have no right for the question.
            let asksForUser = error.kind == .passwordMissing || error.isMissingRight && settings.sentinelPassword != nil
            guard asksForUser, !hasSentPassword, let command = CallEncoder.sentinelAuthentication(settings) else {
                throw error.kind == .unknownCommand ? .notASentinel : .reply(error)
            }
            hasSentPassword = true
            sentinel?.send(.password, now: now) { $0.appendCommand(command) }
            ask(now: now)
        case (.password, .error(let error)): throw .authenticationRefused(by: error)
        case (.password, _): break
        case (.master, _): throw .notRedis("a reply without the address of a master")
        }
        return nil
    }
}
