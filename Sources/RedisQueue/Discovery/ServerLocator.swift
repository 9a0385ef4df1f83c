/// Where the server with one list is looked for next. Knows no socket and no clock.
///
/// A fixed server is dialled again and again. In a Redis Cluster MOVED names the node that has the list, and CLUSTER SLOTS all others:
/// when a node is gone, they are asked who has the list now. With Sentinel each search begins with the question who the master is;
/// the last one that proved to be a master is dialled when no Sentinel knows better.
struct ServerLocator {
    enum Step: Equatable {
        /// - `attempt`: which of a host's addresses, counted on for ever.
        case dial(Endpoint, attempt: Int)
        /// Ask this Sentinel.
        case ask(Endpoint, attempt: Int)
        case fail(RedisError)
    }

    private enum Way {
        case fixed(Endpoint)
        case sentinels([Endpoint], master: String)
    }

    private let way: Way
    /// What was dialled last.
    private(set) var current: Endpoint?
    /// The node that MOVED named last, or the server that served last.
    private var known: Endpoint?
    private var neighbours: [Endpoint] = []
    /// Dials since the last one that led to a server of use.
    private var dials = 0
    private var searches = 0
    /// The Sentinel that is asked first.
    private var first = 0
    /// What the Sentinels of this search had to say.
    private var excuses: [(sentinel: Endpoint, error: RedisError)] = []

    init(_ server: QueueSettings.Server) {
        switch server {
        case .tcp(let host, let port): way = .fixed(.tcp(host: host, port: port))
        case .unix(let path): way = .fixed(.unix(path: path))
        case .sentinels(let sentinels, let master): way = .sentinels(sentinels, master: master)
        }
    }

    /// The name of the master that Sentinels are asked for.
    var masterName: String {
        if case .sentinels(_, let master) = way { master } else { "" }
    }

    /// A new search.
    mutating func begin() -> Step {
        searches += 1
        switch way {
        case .fixed(let seed):
            var candidates: [Endpoint] = []
            for endpoint in [known, seed].compactMap(\.self) + neighbours where !candidates.contains(endpoint) {
                candidates.append(endpoint)
            }
            let (round, place) = dials.quotientAndRemainder(dividingBy: candidates.count)
            return dial(candidates[place], attempt: round)
        case .sentinels:
            excuses = []
            return ask()
        }
    }

    private mutating func dial(_ endpoint: Endpoint, attempt: Int) -> Step {
        dials += 1
        current = endpoint
        return .dial(endpoint, attempt: attempt)
    }

    private func ask() -> Step {
        guard case .sentinels(let sentinels, _) = way else { preconditionFailure("nobody to ask") }
        return .ask(sentinels[(first + excuses.count) % sentinels.count], attempt: searches - 1)
    }

    /// The Sentinel that was asked has named this master.
    mutating func named(_ master: Endpoint) -> Step {
        first += excuses.count
        excuses = []
        return dial(master, attempt: dials)
    }

    /// The Sentinel that was asked is of no help.
    mutating func unhelpful(_ error: RedisError) -> Step {
        guard case .sentinels(let sentinels, let master) = way else { preconditionFailure("nobody was asked") }
        excuses.append((sentinels[(first + excuses.count) % sentinels.count], error))
        if excuses.count < sentinels.count { return ask() }
        if let known { return dial(known, attempt: dials) }
        let why = excuses.sorted { $0.sentinel.description < $1.sentinel.description }.map { "\($0.sentinel): \($0.error)" }
        return .fail(.noMaster(master, why: why, isRefusal: excuses.allSatisfy(\.error.isRefusal)))
    }

    /// What is wrong with the answer to ROLE of the server that was dialled, if it is no master: then the next search begins with
    /// another Sentinel.
    mutating func faultOfRole(_ reply: RedisReply) -> String? {
        let role = reply.items?.first?.text ?? "server that tells no role"
        if role == "master" { return nil }
        first += 1
        if current == known { known = nil }
        let place = current.map { "\($0) " } ?? ""
        return "\(place)is the master by Sentinel's word, and by its own a \(role == "slave" ? "replica" : role)"
    }

    /// The server that was dialled serves.
    mutating func confirmed() {
        dials = 0
        known = current
    }

    /// Where the server was found, if the settings do not say so.
    var discovered: Endpoint? {
        if case .fixed(let seed) = way, seed == current { nil } else { current }
    }

    /// Another node has the list. `false`, and nothing changes, when the words make no sense.
    @discardableResult
    mutating func moved(_ text: String) -> Bool {
        guard let node = Endpoint(movedTo: text, from: current) else { return false }
        known = node
        dials = 0
        return true
    }

    mutating func learned(_ nodes: [Endpoint]) { neighbours = nodes }
}
