public import APNSSimulator
public import ArgumentParser

struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serves until SIGTERM or SIGINT (the default).",
        discussion: """
            OUTPUT
              The first line on stdout is "listening on ADDRESS:PORT", the second names the seed of the script. At SIGTERM \
            or SIGINT one line of JSON with all counters follows, and the status is 0; SIGUSR1 prints the same line \
            and goes on. Nothing else is printed on stdout.

            ANSWERS
              An ANSWER of --fail and --token is one of these, after an optional delay such as 20ms+:
                STATUS[:REASON]  that answer, with Apple's usual reason; 200 accepts
                silent           never answered
                rst[:CODE]       RST_STREAM, with INTERNAL_ERROR (2) unless told
                cut              the connection is reset; the push was not accepted
                cut-after        the connection is reset; the push was accepted
                goaway           GOAWAY with a last stream id below this one

            RULES
              What APNs would refuse is refused before any script: repeated headers, method, path, credential, apns-id, \
            topic, push type, priority, expiration, collapse id, device token and payload size, in this order. Without a \
            client certificate the first SETTINGS allow one stream, and 1000 after the first accepted push. A provider \
            token is verified, refused an hour after its iat, and may change every 20 minutes on one connection.

            THE LEDGER FILE
              --ledger appends one line per request: status, token, apns-id and the SHA-256 of the body, with blanks \
            between. 200 is an accepted push, also where the connection was cut before the answer; 000 a push that was \
            neither accepted nor refused. A line is in the file 100 ms after the answer at the latest.
            """)

    @OptionGroup(title: "Listening") var listening: ListeningOptions
    @OptionGroup(title: "Script") var script: ScriptOptions
    @OptionGroup(title: "Connections") var connections: ConnectionOptions

    @Option(help: ArgumentHelp("Append a line per request to this file.", valueName: "file"))
    var ledger: String?

    func run() throws {
        let signals = Signals()
        var configuration = try listening.configuration()
        configuration.behaviour.script = try script.script()
        connections.apply(to: &configuration.behaviour)
        configuration.ledgerDetail = .counts
        configuration.ledgerPath = ledger
        let simulator = try Simulator(configuration)
        Output.line("listening on \(configuration.host):\(simulator.port)")
        Output.line("seed \(configuration.behaviour.script.seed)")
        while signals.next() == .report { Output.line(simulator.totals.json) }
        simulator.stop()
        Output.line(simulator.totals.json)
        if let error = simulator.ledger.fileError { throw error }
    }
}

struct ListeningOptions: ParsableArguments {
    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 takes a free one.")
    var port = 0

    @Option(
        help: ArgumentHelp(
            """
            Directory of the certificates and the provider key, made there when they are missing. Without it they are made \
            anew and kept in memory, where no client can trust them.
            """, valueName: "dir"))
    var credentials: String?

    @Option(help: ArgumentHelp("Credentials that a client may show: any, token or certificate.", valueName: "kind"))
    var auth = Authentication.any

    @Option(
        help: ArgumentHelp(
            "Bundle id that is known, with the suffixes of the push types; repeatable. All are, unless told.",
            valueName: "id"))
    var topic: [String] = []

    @Flag(help: "Be the sandbox: answers carry apns-unique-id, and certificates must be for development.")
    var sandbox = false

    func validate() throws {
        guard (0...65535).contains(port) else { throw ValidationError("--port is 0 to 65535") }
    }

    func configuration() throws -> Simulator.Configuration {
        var configuration = Simulator.Configuration(credentials: try usedCredentials())
        configuration.host = host
        configuration.port = port
        configuration.authentication = auth
        configuration.topics = topic
        configuration.environment = sandbox ? .sandbox : .production
        return configuration
    }

    private func usedCredentials() throws -> Credentials {
        let request = topic.isEmpty ? Credentials.Request() : Credentials.Request(topics: topic)
        guard let credentials else { return try Credentials.make(request) }
        if Credentials.exist(in: credentials) { return try Credentials(directory: credentials) }
        let made = try Credentials.make(request)
        try made.write(to: credentials)
        return made
    }
}

struct ScriptOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Share of the requests with this answer, as 503:2%; repeatable.", valueName: "answer:share"))
    var fail: [String] = []

    @Option(help: ArgumentHelp("--fail picks tokens instead of requests, and each fails this many times.", valueName: "n"))
    var failTimes: Int?

    @Option(help: ArgumentHelp("Share of the tokens that are 410 Unregistered, always the same.", valueName: "share"))
    var dead: String?

    @Option(help: ArgumentHelp("Time before each answer, as 20ms or 20ms..40ms.", valueName: "time"))
    var latency: String?

    @Option(help: ArgumentHelp(
        "Successive answers for tokens with this prefix, as dead=503,503,200; ANSWER*N counts N times; repeatable.",
        valueName: "prefix=answers"))
    var token: [String] = []

    @Option(help: ArgumentHelp("Seed of everything random; chosen and printed unless given.", valueName: "n"))
    var seed: UInt64?

    func validate() throws {
        if let failTimes, failTimes < 1 { throw ValidationError("--fail-times is 1 or more") }
        let script: Script
        do {
            script = try self.script()
        } catch {
            throw ValidationError("\(error)")
        }
        guard script.failures.map(\.fraction).reduce(0, +) <= 1 else {
            throw ValidationError("the shares of --fail are more than 100% together")
        }
    }

    func script() throws -> Script {
        Script(
            seed: seed ?? UInt64.random(in: 1...999_999), failures: try fail.map { try Script.Share($0) },
            failTimes: failTimes, deadShare: try dead.map { try Script.fraction($0) } ?? 0,
            latency: try latency.map { try Script.latency($0) }, tokenPlans: try token.map { try Script.TokenPlan($0) })
    }
}

struct ConnectionOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Streams that a connection may have open.", valueName: "n"))
    var maxStreams: UInt32 = 1000

    @Option(help: ArgumentHelp(
        "The same without a client certificate, before the first accepted push.", valueName: "n"))
    var tokenStreams: UInt32 = 1

    @Option(
        name: .customLong("goaway-every"),
        help: ArgumentHelp("GOAWAY after each so many requests of a connection.", valueName: "n"))
    var goAwayEvery: Int?

    @Flag(help: "Allow one stream after a rejection, until the next push is accepted.")
    var dropStreamsAfterRejection = false

    @Flag(help: "Leave PINGs unanswered.")
    var silentPings = false

    @Flag(help: "Say nothing on a new connection, not even SETTINGS.")
    var noSettings = false

    func validate() throws {
        guard maxStreams < 1 << 31, tokenStreams < 1 << 31 else { throw ValidationError("a stream limit is below 2147483648") }
        if let goAwayEvery, goAwayEvery < 1 { throw ValidationError("--goaway-every is 1 or more") }
    }

    func apply(to behaviour: inout Behaviour) {
        behaviour.streamLimit = maxStreams
        behaviour.tokenStreamLimit = tokenStreams
        behaviour.goAwayEvery = goAwayEvery ?? 0
        behaviour.dropsLimitAfterRejection = dropStreamsAfterRejection
        behaviour.ignoresPings = silentPings
        if noSettings { behaviour.greeting = .nothing }
    }
}

extension Authentication: ExpressibleByArgument {}
