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
            try sentinel?.receive(poller, now: now)
            while let reply = sentinel?.next() {
                if let master = try understand(reply, now: now) {
                    sentinel = nil
                    return follow(locator.named(master), now: now)
                }
            }
            try sentinel?.flush(now: now)
            return nil
        } catch {
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
            guard asksForUser, !hasSentPassword, let command = Login.sentinelAuthentication(settings) else {
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

/// Decides which server with the list is dialled next. Knows no socket and no clock.
///
/// A fixed server is dialled again and again. In a Redis Cluster MOVED names the node that has the list, and CLUSTER SLOTS all
/// others: when a node fails, they are asked which node has the list. With Sentinel each search begins with the question for the
/// master. If no Sentinel names one, the last server that proved to be a master is dialled.
struct ServerLocator {
    enum Step: Equatable {
        /// `attempt` selects one of the host's addresses; it counts up for ever.
        case dial(Endpoint, attempt: Int)
        /// Ask this Sentinel for the master.
        case ask(Endpoint, attempt: Int)
        case fail(RedisError)
    }

    private enum Source {
        case fixed(Endpoint)
        case sentinels([Endpoint], master: String)
    }

    private let source: Source
    /// The server that was dialled last.
    private(set) var current: Endpoint?
    /// The node that MOVED named last, or the server that served last.
    private var known: Endpoint?
    private var neighbours: [Endpoint] = []
    /// Dials since the last one that led to a serving server.
    private var dials = 0
    private var searches = 0
    /// The Sentinel that is asked first.
    private var first = 0
    /// The Sentinels of this search that named no master.
    private var failures: [RedisError.SentinelFailure] = []

    init(_ server: QueueSettings.Server) {
        switch server {
        case .tcp(let host, let port): source = .fixed(.tcp(host: host, port: port))
        case .unix(let path): source = .fixed(.unix(path: path))
        case .sentinels(let sentinels, let master): source = .sentinels(sentinels, master: master)
        }
    }

    /// The name of the master that Sentinels are asked for.
    var masterName: String {
        if case .sentinels(_, let master) = source { master } else { "" }
    }

    /// Begins a new search.
    mutating func begin() -> Step {
        searches += 1
        switch source {
        case .fixed(let seed):
            var candidates: [Endpoint] = []
            for endpoint in [known, seed].compactMap(\.self) + neighbours where !candidates.contains(endpoint) {
                candidates.append(endpoint)
            }
            let (round, place) = dials.quotientAndRemainder(dividingBy: candidates.count)
            return dial(candidates[place], attempt: round)
        case .sentinels(let sentinels, _):
            // The server that was named last did not serve: another Sentinel may know the new master.
            if dials > 0 { first += 1 }
            failures = []
            return ask(sentinels)
        }
    }

    private mutating func dial(_ endpoint: Endpoint, attempt: Int) -> Step {
        dials += 1
        current = endpoint
        return .dial(endpoint, attempt: attempt)
    }

    private func ask(_ sentinels: [Endpoint]) -> Step {
        .ask(sentinels[(first + failures.count) % sentinels.count], attempt: searches - 1)
    }

    /// The Sentinel that was asked has named this master.
    mutating func named(_ master: Endpoint) -> Step {
        first += failures.count
        failures = []
        return dial(master, attempt: dials)
    }

    /// The Sentinel that was asked has named no master.
    mutating func sentinelFailed(_ error: RedisError) -> Step {
        guard case .sentinels(let sentinels, let master) = source else { preconditionFailure("no Sentinel was asked") }
        failures.append(.init(sentinel: sentinels[(first + failures.count) % sentinels.count], error: error))
        if failures.count < sentinels.count { return ask(sentinels) }
        if let known { return dial(known, attempt: dials) }
        return .fail(.noMaster(master, failures.sorted { $0.sentinel.description < $1.sentinel.description }))
    }

    /// Checks the dialled server's reply to ROLE.
    mutating func faultOfRole(_ reply: RedisReply) -> RedisError? {
        let role = reply.items?.first?.text
        if role == "master" { return nil }
        if current == known { known = nil }
        return .notMaster(current, role: role)
    }

    /// The dialled server serves.
    mutating func confirmed() {
        dials = 0
        known = current
    }

    /// The address of the server, if the settings do not name it.
    var discovered: Endpoint? {
        if case .fixed(let seed) = source, seed == current { nil } else { current }
    }

    /// Another node has the list. Returns `false`, and changes nothing, when the redirection names no node.
    @discardableResult
    mutating func moved(to node: ErrorReply.Node?) -> Bool {
        guard let node = Endpoint(node, from: current) else { return false }
        known = node
        dials = 0
        return true
    }

    mutating func learned(_ nodes: [Endpoint]) { neighbours = nodes }
}
