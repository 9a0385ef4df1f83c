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
