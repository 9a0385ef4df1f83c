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
              An ANSWER of --fail, --token, --at, --every, --connection and --every-connection is one of these, after an optional delay such as 20ms+:
                STATUS[:REASON]       that answer, with Apple's usual reason; 200 accepts
                silent                never answered
                rst[:CODE]            RST_STREAM, with INTERNAL_ERROR (2) unless told
                cut                   the connection is reset; the push was not accepted
                cut-after             the connection is reset; the push was accepted
                half-open             the connection stays, and is never read or written
                half-open-after       the same; the push was accepted
                goaway[:KIND[:TEXT]]  GOAWAY, see below
              Of several that apply a push gets that of --connection, --every-connection, --device, --at, --every, --token, --dead \
            or --fail, in this order. Times are 20ms or 1.5s, shares 2% or 0.02.

            GOAWAY
                below     the last id is below this stream (what goaway alone means)
                all       every stream begun is answered, then the connection ends
                middle    the last id is halfway between the last accepted stream and this one
                zero      no stream was processed
                graceful  the notice with 2^31-1; 50 ms later the same as all
                abrupt    the last id covers every stream, and none is answered
                twice     two frames in a row: all, then below
                limit     code 7 with APNs' plain text about too many streams
              KIND/CODE, as abrupt/2, sends that error code of HTTP/2 in place of 0, but with limit. A TEXT of one word goes out as {"reason":"TEXT"}, one with blanks as it stands, none as empty debug data.

            DEVICES
              --device PREFIX=STATE says what is known of all tokens that begin so; an empty prefix is every token:
                good  unregistered  expired  silent  slow:TIME
                topic:TOPIC         400 DeviceTokenNotForTopic to any other topic
                production sandbox  400 BadDeviceToken in the other environment
                limited:N/TIME      429 TooManyRequests beyond N pushes per token

            RULES
              What APNs would refuse is refused before any script: repeated headers, method, path, credential, apns-id, \
            topic, push type, priority, expiration, collapse id, device token and payload size, in this order. Without a \
            client certificate the first SETTINGS allow one stream, and 1000 after the first accepted push. A provider \
            token is verified, refused an hour after its iat, and may change every 20 minutes on one connection.

            BROADCASTS
              POST /4/broadcasts/apps/BUNDLEID and the calls that make, read, delete and list channels \
            (/1/apps/BUNDLEID/channels, /1/apps/BUNDLEID/all-channels) are served on the same port. A script takes the id \
            of the channel for the token.

            COUNTERS
              requests, accepted, answers (by what they were); connections, open_connections, failed_handshakes, \
            blocked_connections; goaways; refused_streams (above the limit) and limit_violations (above a limit that \
            the client had acknowledged: its own fault); violations of HTTP/2; priority_frames; header_bytes (of all \
            requests, compressed); provider_tokens (different ones, by key); channel_requests.

            THE LEDGER FILE
              --ledger appends one line per push: status, token, apns-id and the SHA-256 of the body, with blanks \
            between. 200 is an accepted push, also where the connection was cut before the answer; 000 a push that was \
            neither accepted nor refused. A line is in the file 100 ms after the answer at the latest.

            EXAMPLES
              Every thousandth push takes its connection with it, unanswered though accepted:
                apns-simulator --every 1000=cut-after
              Each connection is told to go now and then, gracefully, and the stream limit wanders:
                apns-simulator --every 5000=goaway:graceful --streams-walk 50ms=0..1000
              Tokens that begin with 00 are gone, those with 01 may get 5 pushes in 10 s:
                apns-simulator --device 00=unregistered --device 01=limited:5/10s
              The machine behind every fifth connection answers nothing but 500:
                apns-simulator --every-connection 5=500
              More than 20 connections in a second shut the door for 5 s:
                apns-simulator --connect-limit 20/1s:5s

            EXIT STATUS
              0 after SIGTERM or SIGINT; 64 wrong usage; 1 when it cannot listen or write its ledger.
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
        try connections.apply(to: &configuration.behaviour)
        configuration.behaviour.devices = try script.devices()
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

extension Authentication: ExpressibleByArgument {}
