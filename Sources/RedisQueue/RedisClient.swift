public import Sockets
internal import Threads

/// Redis for calls that do one thing and end: each command waits for its reply. Not for the daemon's own thread.
public struct RedisClient: ~Copyable {
    private var connection: RedisConnection<Void>

    /// Connects, logs in and selects the database. Blocks up to the settings' timeout for each step. A host's addresses are tried
    /// in turn.
    ///
    /// - Throws: also when the server lets us in and does not serve (`LOADING …`).
    public init(settings: QueueSettings, tls: TLSContext? = nil) throws(RedisError) {
        let attempts = RedisClient.addressCount(of: settings.server)
        for attempt in 0..<attempts - 1 {
            do throws(RedisError) {
                self.init(try RedisClient.logIn(settings, tls, attempt: attempt))
                return
            } catch {
                // What answered need not be asked for at another address.
                if case .reply = error { throw error }
            }
        }
        self.init(try RedisClient.logIn(settings, tls, attempt: attempts - 1))
    }

    /// At least 1, at most 4: a host that cannot be resolved says so when it is dialled.
    private static func addressCount(of server: QueueSettings.Server) -> Int {
        guard case .tcp(let host, let port) = server else { return 1 }
        return min(4, max(1, (try? SocketAddress.resolve(host: host, port: port).count) ?? 1))
    }

    private init(_ connection: consuming RedisConnection<Void>) {
        self.connection = connection
    }

    private static func logIn(
        _ settings: QueueSettings, _ tls: TLSContext?, attempt: Int
    ) throws(RedisError) -> RedisConnection<Void> {
        var connection = try RedisConnection<Void>(
            to: settings.server, attempt: attempt, tls: tls, timeout: settings.timeout, now: .now)
        let encoder = CallEncoder(settings: settings, worker: .make(instance: 0), information: [], birthMark: "")
        for (call, command) in encoder.greeting() {
            guard case .error(let text) = try exchange([command], on: &connection)[0] else { continue }
            if call == .greeting(secret: true) {
                throw .reply("AUTH was refused (\(text.prefix { $0 != " " })): wrong user name or password?")
            }
            throw .reply(text)
        }
        return connection
    }

    /// Runs one command. An error reply is thrown.
    public mutating func command(_ arguments: [String]) throws(RedisError) -> RedisReply {
        try RedisClient.checked(try RedisClient.exchange([Arguments(arguments)], on: &connection)[0])
    }

    /// Runs one command whose arguments are any bytes. An error reply is thrown.
    public mutating func command(_ arguments: [[UInt8]]) throws(RedisError) -> RedisReply {
        var command = Arguments()
        for argument in arguments { command.append(argument) }
        return try RedisClient.checked(try RedisClient.exchange([command], on: &connection)[0])
    }

    /// Sends all commands at once, then reads all replies, in the same order. Error replies are among them.
    public mutating func pipeline(_ commands: [[[UInt8]]]) throws(RedisError) -> [RedisReply] {
        if commands.isEmpty { return [] }
        let written = commands.map { arguments in
            var command = Arguments()
            for argument in arguments { command.append(argument) }
            return command
        }
        return try RedisClient.exchange(written, on: &connection)
    }

    private static func checked(_ reply: RedisReply) throws(RedisError) -> RedisReply {
        if case .error(let text) = reply { throw .reply(ServerFault.withoutArguments(text)) }
        return reply
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
