import Clocks
internal import Sockets
internal import Threads

/// Finds out which server to dial: at once, or after asking Sentinels over connections of its own.
///
/// A thin shell: `ServerLocator` decides. Sentinels are reached by TLS when Redis is. They are told no password unless they ask for
/// one, and then that of Redis.
struct ServerSearch: ~Copyable {
    enum Result {
        case found(Endpoint, attempt: Int)
        case failed(RedisError)
    }

    private enum Question { case password, master }

    private let settings: QueueSettings
    var tls: TLSContext?
    var whereabouts: ServerLocator
    private var sentinel: RedisConnection<Question>?
    private var hasToldPassword = false
    private var incoming: [RedisConnection<Question>.Incoming] = []

    init(_ settings: QueueSettings, tls: TLSContext?) {
        self.settings = settings
        self.tls = tls
        whereabouts = ServerLocator(settings.server)
    }

    /// Begins anew. `nil` while Sentinels are being asked: then turns are needed.
    mutating func begin(now: Instant) -> Result? {
        follow(whereabouts.begin(), now: now)
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
            let answers = incoming
            incoming = []
            for answer in answers {
                if let master = try understand(answer, now: now) {
                    sentinel = nil
                    return follow(whereabouts.named(master), now: now)
                }
            }
            try sentinel?.flush()
            return nil
        } catch {
            incoming = []
            return follow(whereabouts.unhelpful(error), now: now)
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
                    // Half the patience: when several are silent, the last master is still reached within a lease.
                    sentinel = try RedisConnection(
                        to: endpoint, attempt: attempt, tls: tls, timeout: settings.timeout / 2, now: now)
                    hasToldPassword = false
                    ask(now: now)
                    return nil
                } catch {
                    step = whereabouts.unhelpful(error)
                }
            }
        }
    }

    private mutating func ask(now: Instant) {
        let question = Arguments(["SENTINEL", "get-master-addr-by-name", whereabouts.masterName])
        sentinel?.send(.master, now: now) { $0.appendCommand(question) }
    }

    /// The master, once it is told.
    private mutating func understand(
        _ answer: RedisConnection<Question>.Incoming, now: Instant
    ) throws(RedisError) -> Endpoint? {
        switch (answer.tag, answer.reply) {
        case (.master, .array(let parts)):
            guard parts.count == 2, let host = parts[0].text, let port = parts[1].text.flatMap({ Int($0) }),
                let master = Endpoint(host: host, port: port, besides: nil)
            else { throw .notRedis("no address of a master") }
            return master
        case (.master, .null): throw .reply("knows no master of this name")
        case (.master, .error(let text)):
            guard text.hasPrefix("NOAUTH"), !hasToldPassword, let command = CallEncoder.authentication(settings) else {
                throw .reply(text.hasPrefix("ERR unknown command") ? "is no Sentinel" : ErrorReply.withoutArguments(text))
            }
            hasToldPassword = true
            sentinel?.send(.password, now: now) { $0.appendCommand(command) }
            ask(now: now)
        case (.password, .error(let text)): throw .reply(CallEncoder.refusedPassword(text))
        case (.password, _): break
        case (.master, _): throw .notRedis("no address of a master")
        }
        return nil
    }
}
