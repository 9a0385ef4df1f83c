import Glibc
public import Platform

/// A client for one-shot calls: each command waits for its reply. Not for the dispatcher's thread.
///
/// In a Redis Cluster it follows redirections to the node with the key of the command; with Sentinel it begins at the master.
public struct RedisClient: ~Copyable {
    private let settings: QueueSettings
    private let tls: TLSContext?
    private var endpoint: Endpoint
    private var connection: RedisConnection<Void>

    /// The number of redirections that one command may follow.
    private static let mostRedirects = 5
    /// The most addresses of a host that are tried.
    private static let mostAddresses = 4

    /// Connects, authenticates and selects the database. Blocks up to the settings' timeout for each step. The addresses of a
    /// host are tried in turn, and so are Sentinels.
    ///
    /// - Throws: also when the server accepts the user but does not serve (`LOADING …`).
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

    /// After a Sentinel that names no master the next one is asked; each is asked once.
    private static func find(_ settings: QueueSettings, _ tls: TLSContext?) throws(RedisError) -> Found {
        var search = ServerSearch(settings, tls: tls, resolver: nil)
        var left = if case .sentinels(let sentinels, _) = settings.server { sentinels.count } else { 1 }
        while true {
            let endpoint = try ask(&search)
            left -= 1
            do throws(RedisError) {
                return Found(endpoint: endpoint, connection: try logIn(settings, tls, at: endpoint, &search.locator))
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
            case .found(let endpoint, _, _): return endpoint
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
        _ settings: QueueSettings, _ tls: TLSContext?, at endpoint: Endpoint, _ locator: inout ServerLocator
    ) throws(RedisError) -> RedisConnection<Void> {
        let addresses = try AddressLookup.inPlace(endpoint).get().prefix(mostAddresses)
        for address in addresses.dropLast() {
            do throws(RedisError) {
                return try logIn(settings, tls, at: address, of: endpoint, &locator)
            } catch {
                if error.isFromServer { throw error }
            }
        }
        return try logIn(settings, tls, at: addresses[addresses.endIndex - 1], of: endpoint, &locator)
    }

    private static func logIn(
        _ settings: QueueSettings, _ tls: TLSContext?, at address: SocketAddress, of endpoint: Endpoint,
        _ locator: inout ServerLocator
    ) throws(RedisError) -> RedisConnection<Void> {
        var connection = try RedisConnection<Void>(to: address, of: endpoint, tls: tls, timeout: settings.timeout, now: .now)
        for (step, command) in Login.commands(settings) {
            let reply = try exchange([command], on: &connection)[0]
            if let error = step.error(in: reply) { throw error }
            if step == .role, let error = locator.faultOfRole(reply) { throw error }
        }
        return connection
    }

    /// Runs one command. An error reply is thrown.
    public mutating func command(_ arguments: [String]) throws(RedisError) -> RedisReply {
        try run(Arguments(arguments))
    }

    /// Runs one command with binary arguments. An error reply is thrown.
    public mutating func command(_ arguments: [[UInt8]]) throws(RedisError) -> RedisReply {
        try run(Arguments(arguments))
    }

    /// Runs a script. An error reply is thrown.
    mutating func evaluate(_ script: String, _ keys: [String], _ arguments: [String] = []) throws(RedisError) -> RedisReply {
        try run(Arguments(["EVAL", script, String(keys.count)] + keys + arguments))
    }

    mutating func evaluate(_ script: String, _ keys: [String], _ arguments: [[UInt8]]) throws(RedisError) -> RedisReply {
        var command = Arguments(["EVAL", script, String(keys.count)] + keys)
        for argument in arguments { command.append(argument) }
        return try run(command)
    }

    /// Runs a script that does all of its steps, or nothing. Returns whether it has done them.
    mutating func step(_ script: String, _ keys: [String], _ arguments: [[UInt8]]) throws(RedisError) -> Bool {
        guard let done = try evaluate(script, keys, arguments).integer else { throw .notRedis("a step without a result") }
        return done >= 0
    }

    /// Sends all commands at once to the node of the last command. Returns all replies in the same order, error replies included.
    public mutating func pipeline(_ commands: [[String]]) throws(RedisError) -> [RedisReply] {
        if commands.isEmpty { return [] }
        return try RedisClient.exchange(commands.map(Arguments.init), on: &connection)
    }

    private mutating func run(_ command: Arguments) throws(RedisError) -> RedisReply {
        let deadline = Instant.now + settings.timeout
        var redirects = 0
        while true {
            let reply = try RedisClient.exchange([command], on: &connection)[0]
            guard case .error(let error) = reply else { return reply }
            switch error.kind {
            case .moved(let node) where redirects < RedisClient.mostRedirects:
                redirects += 1
                guard let node = Endpoint(node, from: endpoint) else { throw .notRedis(error.text) }
                try follow(node)
                continue
            case .ask(let node):
                guard let node = Endpoint(node, from: endpoint) else { throw .notRedis(error.text) }
                if let reply = try ask(node, command) { return reply }
            case .clusterBusy: break
            default: throw .reply(error)
            }
            guard .now < deadline else { throw .reply(error) }
            poll(nil, 0, 50)
        }
    }

    private mutating func follow(_ node: Endpoint) throws(RedisError) {
        var locator = ServerLocator(settings.server)
        connection = try RedisClient.logIn(settings, tls, at: node, &locator)
        endpoint = node
    }

    /// Runs one command at the node to which a slot migrates (cluster specification, "ASK redirection"). The next command begins
    /// at the old node again. `nil` when that node cannot run it yet.
    private func ask(_ node: Endpoint, _ command: Arguments) throws(RedisError) -> RedisReply? {
        var locator = ServerLocator(settings.server)
        var importer = try RedisClient.logIn(settings, tls, at: node, &locator)
        let reply = try RedisClient.exchange([Arguments(["ASKING"]), command], on: &importer)[1]
        guard case .error(let error) = reply else { return reply }
        switch error.kind {
        case .moved, .ask, .clusterBusy: return nil  // The migration may be over by now, completed or cancelled.
        default: throw .reply(error)
        }
    }

    private static func exchange(
        _ commands: [Arguments], on connection: inout RedisConnection<Void>
    ) throws(RedisError) -> [RedisReply] {
        for command in commands { connection.send((), now: .now) { $0.appendCommand(command) } }
        var replies: [RedisReply] = []
        var poller = Poller()
        while replies.count < commands.count {
            try connection.flush(now: .now)
            poller.reset()
            connection.addInterest(to: &poller)
            poller.wait(until: connection.deadline)
            try connection.receive(poller, now: .now)
            while let reply = connection.next() { replies.append(reply.reply) }
        }
        return replies
    }
}

extension ServerInfo {
    /// Returns nothing if the user may not run INFO, or if `rename-command` hides it.
    public static func read(_ client: inout RedisClient) throws(RedisError) -> ServerInfo? {
        do throws(RedisError) {
            return try client.command(["INFO", "server"]).text.map(ServerInfo.init)
        } catch {
            if case .reply(let reply) = error, reply.isMissingRight || reply.kind == .unknownCommand { return nil }
            throw error
        }
    }
}
