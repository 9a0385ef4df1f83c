import Clocks
internal import Sockets
internal import Threads

/// Finds the server to dial: at once, or by asking Sentinels over connections of its own.
///
/// A thin shell: `ServerLocator` decides. Sentinels are reached by TLS if Redis is. They get no password unless they ask for one,
/// and then that of Redis.
struct ServerSearch: ~Copyable {
    enum Result {
        case found(Endpoint, attempt: Int)
        case failed(RedisError)
    }

    private enum Question { case password, master }

    private let settings: QueueSettings
    var tls: TLSContext?
    var locator: ServerLocator
    private var sentinel: RedisConnection<Question>?
    private var hasSentPassword = false
    private var incoming: [RedisConnection<Question>.Incoming] = []

    init(_ settings: QueueSettings, tls: TLSContext?) {
        self.settings = settings
        self.tls = tls
        locator = ServerLocator(settings.server)
    }

    /// Begins a search. `nil` while Sentinels are being asked: then turns are needed.
    mutating func begin(now: Instant) -> Result? {
        follow(locator.begin(), now: now)
    }

    mutating func cancel() { sentinel = nil }

    private var isAsking: Bool {
        switch sentinel {
        case .some: true
        case .none: false
        }
    }

    mutating func addInterest(to poller: inout Poller) { sentinel?.addInterest(to: &poller) }

    var deadline: Instant? {
        switch sentinel {
        case .some(let sentinel): sentinel.deadline
        case .none: nil
        }
    }

    /// - Parameter poller: the one that `addInterest` was last called with.
    mutating func turn(_ poller: borrowing Poller, now: Instant) -> Result? {
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
            try sentinel?.flush()
            return nil
        } catch {
            incoming = []
            return follow(locator.sentinelFailed(error), now: now)
        }
    }

    private mutating func follow(_ first: ServerLocator.Step, now: Instant) -> Result? {
        var step = first
        while true {
            sentinel = nil
            switch step {
            case .dial(let endpoint, let attempt): return .found(endpoint, attempt: attempt)
            case .fail(let error): return .failed(error)
            case .ask(let endpoint, let attempt):
                do throws(RedisError) {
                    // Half of the timeout: if several are silent, the last master is still reached within a lease.
                    sentinel = try RedisConnection(
                        to: endpoint, attempt: attempt, tls: tls, timeout: settings.timeout / 2, now: now)
                    hasSentPassword = false
                    ask(now: now)
                    return nil
                } catch {
                    step = locator.sentinelFailed(error)
                }
            }
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
        switch (incoming.tag, incoming.reply) {
        case (.master, .array(let parts)):
            guard parts.count == 2, let host = parts[0].text, let port = parts[1].text.flatMap({ Int($0) }),
                let master = Endpoint(host: host, port: port, besides: nil)
            else { throw .notRedis("a reply without the address of a master") }
            return master
        case (.master, .null): throw .unknownMaster
        case (.master, .error(let error)):
            guard error.kind == .passwordMissing, !hasSentPassword, let command = CallEncoder.authentication(settings) else {
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
