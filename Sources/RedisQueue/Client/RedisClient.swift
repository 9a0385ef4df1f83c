import Clocks
import Glibc
public import Sockets
internal import Threads

/// Redis for calls that do one thing and end: each command waits for its reply. Not for the daemon's own thread.
///
/// In a Redis Cluster it goes on to the node that has the key of the command; with Sentinel it begins at the master.
public struct RedisClient: ~Copyable {
    private let settings: QueueSettings
    private let tls: TLSContext?
    private var endpoint: Endpoint
    private var connection: RedisConnection<Void>

    /// So many nodes of a cluster may send one command on.
    private static let mostRedirects = 5

    /// Connects, logs in and selects the database. Blocks up to the settings' timeout for each step. A host's addresses are tried
    /// in turn, and so are Sentinels.
    ///
    /// - Throws: also when the server lets us in and does not serve (`LOADING …`).
    public init(settings: QueueSettings, tls: TLSContext? = nil) throws(RedisError) {
        let found = try RedisClient.find(settings, tls)
        self.settings = settings
        self.tls = tls
        endpoint = found.endpoint
        connection = found.connection
    }

    private struct Found: ~Copyable {
        var endpoint: Endpoint
        var connection: RedisConnection<Void>
    }

    /// A Sentinel that names no master is followed by the next one; each has one chance.
    private static func find(_ settings: QueueSettings, _ tls: TLSContext?) throws(RedisError) -> Found {
        var search = ServerSearch(settings, tls: tls)
        var left = if case .sentinels(let sentinels, _) = settings.server { sentinels.count } else { 1 }
        while true {
            let endpoint = try ask(&search)
            left -= 1
            do throws(RedisError) {
                return Found(endpoint: endpoint, connection: try logIn(settings, tls, at: endpoint, &search.whereabouts))
            } catch {
                if left <= 0 || error.isRefusal { throw error }
            }
        }
    }

    private static func ask(_ search: inout ServerSearch) throws(RedisError) -> Endpoint {
        var result = search.begin(now: .now)
        var poller = Poller()
        while true {
            switch result {
            case .found(let endpoint, _): return endpoint
            case .failed(let error): throw error
            case nil:
                poller.reset()
                search.addInterest(to: &poller)
                poller.wait(until: search.deadline)
                result = search.turn(poller, now: .now)
            }
        }
    }

    private static func logIn(
        _ settings: QueueSettings, _ tls: TLSContext?, at endpoint: Endpoint, _ whereabouts: inout ServerLocator
    ) throws(RedisError) -> RedisConnection<Void> {
        let attempts = addressCount(of: endpoint)
        for attempt in 0..<attempts - 1 {
            do throws(RedisError) {
                return try logIn(settings, tls, at: endpoint, attempt: attempt, &whereabouts)
            } catch {
                // What answered need not be asked for at another address.
                if case .reply = error { throw error }
            }
        }
        return try logIn(settings, tls, at: endpoint, attempt: attempts - 1, &whereabouts)
    }

    /// At least 1, at most 4: a host that cannot be resolved says so when it is dialled.
    private static func addressCount(of endpoint: Endpoint) -> Int {
        guard case .tcp(let host, let port) = endpoint else { return 1 }
        return min(4, max(1, (try? SocketAddress.resolve(host: host, port: port).count) ?? 1))
    }

    private static func logIn(
        _ settings: QueueSettings, _ tls: TLSContext?, at endpoint: Endpoint, attempt: Int, _ whereabouts: inout ServerLocator
    ) throws(RedisError) -> RedisConnection<Void> {
        var connection = try RedisConnection<Void>(
            to: endpoint, attempt: attempt, tls: tls, timeout: settings.timeout, now: .now)
        let encoder = CallEncoder(settings: settings, worker: .make(instance: 0), information: [], birthMark: 0)
        for (call, command) in encoder.greeting() {
            let reply = try exchange([command], on: &connection)[0]
            if case .error(let text) = reply {
                throw .reply(
                    call == .greeting(.password) ? CallEncoder.refusedPassword(text) : ErrorReply.withoutArguments(text))
            }
            if call == .greeting(.role), let fault = whereabouts.faultOfRole(reply) { throw .reply(fault) }
        }
        return connection
    }

    /// Runs one command. An error reply is thrown.
    public mutating func command(_ arguments: [String]) throws(RedisError) -> RedisReply {
        try run(Arguments(arguments))
    }

    /// Runs one command whose arguments are any bytes. An error reply is thrown.
    public mutating func command(_ arguments: [[UInt8]]) throws(RedisError) -> RedisReply {
        try run(Arguments(arguments))
    }

    /// Sends all commands at once to the node that the last command went to, then reads all replies, in the same order. Error
    /// replies are among them.
    public mutating func pipeline(_ commands: [[String]]) throws(RedisError) -> [RedisReply] {
        if commands.isEmpty { return [] }
        return try RedisClient.exchange(commands.map(Arguments.init), on: &connection)
    }

    private mutating func run(_ command: Arguments) throws(RedisError) -> RedisReply {
        let patience = Instant.now + settings.timeout
        var redirects = 0
        while true {
            let reply = try RedisClient.exchange([command], on: &connection)[0]
            guard case .error(let text) = reply else { return reply }
            if ErrorReply(text) == .moved, redirects < RedisClient.mostRedirects {
                redirects += 1
                try follow(text)
            } else if text.hasPrefix("ASK "), let answer = try ask(text, command) {
                return answer
            } else if ErrorReply.isClusterAtWork(text), .now < patience {
                poll(nil, 0, 50)
            } else {
                throw .reply(ErrorReply.withoutArguments(text))
            }
        }
    }

    private mutating func follow(_ text: String) throws(RedisError) {
        guard let node = Endpoint(movedTo: text, from: endpoint) else { throw .notRedis(text) }
        var whereabouts = ServerLocator(settings.server)
        connection = try RedisClient.logIn(settings, tls, at: node, &whereabouts)
        endpoint = node
    }

    /// Has one command carried out by the node that a slot is on its way to (cluster specification, "ASK redirection"); the next one
    /// begins at the old node again. `nil` when it is too early there for a command with these keys.
    private func ask(_ text: String, _ command: Arguments) throws(RedisError) -> RedisReply? {
        guard let node = Endpoint(askedAt: text, from: endpoint) else { throw .notRedis(text) }
        var whereabouts = ServerLocator(settings.server)
        var importer = try RedisClient.logIn(settings, tls, at: node, &whereabouts)
        let reply = try RedisClient.exchange([Arguments(["ASKING"]), command], on: &importer)[1]
        guard case .error(let text) = reply else { return reply }
        // The move may be over by now, one way or the other.
        if ErrorReply.isClusterAtWork(text) || ErrorReply(text) == .moved { return nil }
        throw .reply(ErrorReply.withoutArguments(text))
    }

    private static func exchange(
        _ commands: [Arguments], on connection: inout RedisConnection<Void>
    ) throws(RedisError) -> [RedisReply] {
        for command in commands { connection.send((), now: .now) { $0.appendCommand(command) } }
        var replies: [RedisReply] = []
        var poller = Poller()
        var incoming: [RedisConnection<Void>.Incoming] = []
        while replies.count < commands.count {
            try connection.flush()
            poller.reset()
            connection.addInterest(to: &poller)
            poller.wait(until: connection.deadline)
            try connection.receive(poller, now: .now, into: &incoming)
            for answer in incoming { replies.append(answer.reply) }
            incoming.removeAll(keepingCapacity: true)
        }
        return replies
    }
}
