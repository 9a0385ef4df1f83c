public import APNSSimulator
public import ArgumentParser
import Glibc

struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serves until SIGTERM or SIGINT (the default command).",
        discussion: """
            OUTPUT
              The first line on stdout is "listening on ADDRESS:PORT", the second is the seed of the script, and with --page \
            the third is the address of the page. SIGUSR1 \
            prints one line of JSON with all counters. SIGTERM and SIGINT print the same line and exit with status 0. \
            Nothing else is printed on stdout.

            ANSWERS
              An ANSWER of --fail, --token, --at, --every, --connection and --every-connection is one of these, after an \
            optional delay such as 20ms+:
                STATUS[:REASON]       this status; the default is Apple's usual reason; 200 accepts
                silent                no answer
                rst[:CODE]            RST_STREAM; the default is INTERNAL_ERROR (2)
                cut                   the connection is reset; the push is not accepted
                cut-after             the connection is reset; the push is accepted
                half-open             the connection is no longer read, written or closed
                half-open-after       the same; the push is accepted
                goaway[:KIND[:TEXT]]  GOAWAY, see below
              If several options apply to a push, the first one in this order is used: --connection, --every-connection, \
            --device, --at, --every, --token, --dead, --fail. Times are 20ms or 1.5s, shares 2% or 0.02.

            GOAWAY
                below     the last stream id is below this stream (the default kind)
                all       every stream begun is answered, then the connection closes
                middle    the last stream id is halfway between the last accepted stream and this one
                zero      no stream was processed
                graceful  the notice with 2^31-1, and after 50 ms the same as all
                abrupt    the last stream id covers every stream, and none is answered
                twice     two frames at once: all, then below
                limit     code 7 with the plain text of APNs about too many streams
              KIND/CODE, such as abrupt/2, sends this HTTP/2 error code instead of 0; limit takes no code. A TEXT of one \
            word is sent as {"reason":"TEXT"}, a TEXT with blanks unchanged. Without TEXT, the debug data is empty.

            DEVICES
              --device PREFIX=STATE sets the state of all tokens with this prefix; an empty prefix matches every token:
                good  unregistered  expired  silent  slow:TIME
                topic:TOPIC         400 DeviceTokenNotForTopic for any other topic
                production sandbox  400 BadDeviceToken in the other environment
                limited:N/TIME      429 TooManyRequests beyond N pushes per token

            RULES
              The rules of APNs apply before any script, in this order: repeated headers, method, path, credential, \
            apns-id, topic, push type, priority, expiration, collapse id, device token, payload size. Without a client \
            certificate, the first SETTINGS allow one stream, and 1000 after the first accepted push. A provider token is \
            verified, expires an hour after its iat, and may change every 20 minutes on one connection.

            BROADCASTS
              POST /4/broadcasts/apps/BUNDLEID and the requests that create, read, delete and list channels \
            (/1/apps/BUNDLEID/channels, /1/apps/BUNDLEID/all-channels) are served on the same port. In a script, the \
            channel id takes the place of the token.

            COUNTERS
              requests, accepted, answers (by kind); connections, open_connections, failed_handshakes, \
            blocked_connections; goaways; refused_streams (above the limit) and limit_violations (above a limit that \
            the client had acknowledged); violations of HTTP/2; priority_frames; header_bytes (compressed, of all \
            requests); provider_tokens (distinct, by key); channel_requests.

            THE LEDGER FILE
              --ledger appends one line per push: status, token, apns-id and the SHA-256 of the body, separated by \
            blanks. Status 200 is an accepted push, also if the connection was cut before the answer; 000 is a push that \
            was neither accepted nor rejected. A line is in the file at most 100 ms after the answer.

            THE PAGE
              --page serves an HTML page with the latest 200 pushes as cards of a lock screen, with headers, the readable \
            parts of the provider token (never its signature), payload and verdict. GET /api/pushes returns the same as \
            JSON, DELETE /api/pushes clears them. Both GET requests take ?q=TEXT&kind=KIND; a KIND is alert, silent, \
            "live activity", voip or other. A request may name a loopback address, localhost or the address of the page.

            EXAMPLES
              Every thousandth push is accepted and cuts its connection without an answer:
                apns-simulator --every 1000=cut-after
              A graceful GOAWAY for every 5000th push, and a random stream limit:
                apns-simulator --every 5000=goaway:graceful --streams-walk 50ms=0..1000
              Tokens with the prefix 00 are unregistered, tokens with 01 accept 5 pushes in 10 s:
                apns-simulator --device 00=unregistered --device 01=limited:5/10s
              Every fifth connection answers only 500:
                apns-simulator --every-connection 5=500
              The rotation of a signing key: first both keys are accepted, then the old one is revoked:
                apns-simulator --credentials DIR --signing-key SIMKEY0002
                apns-simulator --credentials DIR --refuse SIMKEY0001=InvalidProviderToken
              More than 20 connections in a second reset new connections for 5 s:
                apns-simulator --connect-limit 20/1s:5s

            EXIT STATUS
              0 after SIGTERM or SIGINT, 64 wrong usage, 1 if it cannot listen or write the ledger.
            """)

    /// Pushes that the page shows.
    private static let pushesOnPage = 200

    @OptionGroup(title: "Listening") var listening: ListeningOptions
    @OptionGroup(title: "Script") var script: ScriptOptions
    @OptionGroup(title: "Connections") var connections: ConnectionOptions

    @Option(help: ArgumentHelp("Append a line for each push to this file.", valueName: "file"))
    var ledger: String?

    @Option(
        help: ArgumentHelp(
            "Show the latest pushes as a phone does, on a page at this address, such as 127.0.0.1:8097.",
            valueName: "host:port"))
    var page: String?

    func validate() throws {
        guard page == nil || pageAddress != nil else { throw ValidationError("--page must be HOST:PORT") }
    }

    /// An IPv6 address is in brackets.
    private var pageAddress: (host: String, port: Int)? {
        guard let page, let colon = page.lastIndex(of: ":"), let port = Int(page[page.index(after: colon)...]),
            0...65535 ~= port
        else { return nil }
        var host = String(page[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        return host.isEmpty ? nil : (host, port)
    }

    /// The host as in a URL.
    private var pageHost: String { pageAddress.map { $0.host.contains(":") ? "[\($0.host)]" : $0.host } ?? "" }

    func run() throws {
        let signals = Signals()
        var configuration = try listening.configuration()
        configuration.recentPushes = page == nil ? 0 : Self.pushesOnPage
        configuration.behaviour.script = try script.script()
        try connections.apply(to: &configuration.behaviour)
        configuration.behaviour.devices = try script.devices()
        configuration.ledgerDetail = .counts
        configuration.ledgerPath = ledger
        let simulator = try Simulator(configuration)
        let page = try pageAddress.map { try PushPage(of: simulator, host: $0.host, port: $0.port) }
        Output.line("listening on \(configuration.host):\(simulator.port)")
        Output.line("seed \(configuration.behaviour.script.seed)")
        if let page { Output.line("page http://\(pageHost):\(page.port)/") }
        while signals.next() == .report { Output.line(simulator.totals.json) }
        page?.close()
        simulator.stop()
        Output.line(simulator.totals.json)
        if let error = simulator.ledger.fileError { throw error }
    }
}

extension Authentication: ExpressibleByArgument {}

struct ListeningOptions: ParsableArguments {
    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on. 0: any free port.")
    var port = 0

    @Option(
        help: ArgumentHelp(
            """
            Directory of the certificates and the provider key, which are created if missing. Without this option, they are \
            created in memory, and no client can trust them.
            """, valueName: "dir"))
    var credentials: String?

    @Option(
        help: ArgumentHelp(
            "Another name of this server, for its certificate, when the credentials are created; repeatable.", valueName: "host"))
    var name: [String] = []

    @Option(
        help: ArgumentHelp(
            "Id of a further provider key of the team, which is created if missing; repeatable.", valueName: "id"))
    var signingKey: [String] = []

    @Option(help: ArgumentHelp("Accepted credentials: any, token or certificate.", valueName: "kind"))
    var auth = Authentication.any

    @Option(
        help: ArgumentHelp(
            "Bundle id that is known, also with the suffix of a push type; repeatable. Default: all.",
            valueName: "id"))
    var topic: [String] = []

    @Flag(help: "Simulate the sandbox: answers contain apns-unique-id, and certificates must be for development.")
    var sandbox = false

    @Option(help: ArgumentHelp("Bundle id that may broadcast; repeatable. Default: all.", valueName: "id"))
    var broadcastTopic: [String] = []

    @Option(help: ArgumentHelp("Existing broadcast channel; repeatable.", valueName: "bundle=id"))
    var channel: [String] = []

    func validate() throws {
        for text in channel { _ = try ListeningOptions.channel(text) }
        guard (0...65535).contains(port) else { throw ValidationError("--port must be 0 to 65535") }
    }

    func configuration() throws -> Simulator.Configuration {
        var configuration = Simulator.Configuration(credentials: try usedCredentials())
        configuration.host = host
        configuration.port = port
        configuration.authentication = auth
        configuration.topics = topic
        configuration.environment = sandbox ? .sandbox : .production
        configuration.broadcastTopics = broadcastTopic
        configuration.channels = try channel.map(ListeningOptions.channel)
        return configuration
    }

    private static func channel(_ text: String) throws -> Simulator.Channel {
        let sides = text.split(separator: "=", maxSplits: 1).map(String.init)
        guard sides.count == 2 else { throw ValidationError("--channel must be BUNDLEID=ID, with the id in base64") }
        return Simulator.Channel(app: sides[0], id: sides[1])
    }

    private func usedCredentials() throws -> Credentials {
        var request = topic.isEmpty ? Credentials.Request() : Credentials.Request(topics: topic)
        request.serverNames += name
        guard let directory = credentials else { return try withKeys(Credentials.make(request)) }
        if Credentials.exist(in: directory) {
            let read = try Credentials(directory: directory)
            let all = try withKeys(read)
            if all.otherKeys.count > read.otherKeys.count { try all.write(to: directory) }
            return all
        }
        let made = try withKeys(Credentials.make(request))
        try made.write(to: directory)
        return made
    }

    private func withKeys(_ credentials: Credentials) throws -> Credentials {
        var credentials = credentials
        for id in signingKey { try credentials.addKey(id) }
        return credentials
    }
}

/// The signals of this tool. Made before any other thread: threads inherit that these signals are blocked.
struct Signals {
    enum Request { case report, stop }

    private var set = sigset_t()

    init() {
        unsafe sigemptyset(&set)
        for number in [SIGTERM, SIGINT, SIGUSR1] { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
        signal(SIGPIPE, SIG_IGN)  // a closed pipe does not end the process
    }

    /// Waits for the next signal.
    func next() -> Request {
        var number: CInt = 0
        var set = set
        unsafe sigwait(&set, &number)
        return number == SIGUSR1 ? .report : .stop
    }
}
