public import APNSSimulator
public import ArgumentParser

struct ConnectionOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Maximum number of open streams per connection.", valueName: "n"))
    var maxStreams: UInt32 = 1000

    @Option(
        help: ArgumentHelp(
            "Maximum number of open streams without a client certificate, until the first accepted push.", valueName: "n"))
    var tokenStreams: UInt32 = 1

    @Option(
        help: ArgumentHelp(
            "Set another random stream limit after each interval, such as 50ms=0..1000.", valueName: "time=low..high"))
    var streamsWalk: String?

    @Option(
        help: ArgumentHelp(
            """
            Reaction to a stream above the limit: refuse (REFUSED_STREAM), refuse-twice (then also STREAM_CLOSED) or goaway.
            """, valueName: "reaction"))
    var overLimit = Behaviour.OverLimit.refuse

    @Flag(help: "After a rejected push, allow one stream until the next push is accepted.")
    var dropStreamsAfterRejection = false

    @Option(
        name: .customLong("goaway-every"),
        help: ArgumentHelp("Send GOAWAY after every n requests of a connection.", valueName: "n"))
    var goAwayEvery: Int?

    @Option(
        help: ArgumentHelp(
            """
            First bytes that a new connection gets: settings, nothing (no HTTP/2), tarpit (no TLS) or goaway[:KIND[:TEXT]]. \
            With a share, such as nothing=10%, the other connections get settings.
            """, valueName: "greeting"))
    var greeting = "settings"

    @Flag(help: "Same as --greeting nothing.")
    var noSettings = false

    @Option(
        help: ArgumentHelp(
            """
            Reject a valid credential: certificate refuses every client certificate with a TLS alert, certificate=REASON \
            and KEYID=REASON answer each push with this reason; repeatable.
            """, valueName: "credential=reason"))
    var refuse: [String] = []

    @Option(
        help: ArgumentHelp(
            "After more than n new connections within a time, reset further ones for a while, such as 20/1s:5s.",
            valueName: "n/time:block"))
    var connectLimit: String?

    @Option(
        help: ArgumentHelp(
            "Answer of the n-th connection to every valid push, such as 2=500; repeatable.", valueName: "n=answer"))
    var connection: [String] = []

    @Option(
        help: ArgumentHelp(
            "Answer of every n-th connection to every valid push, such as 5=silent; repeatable.", valueName: "n=answer"))
    var everyConnection: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            Reaction to a connection without a request for this time: goaway, 400 (IdleTimeout to the next request, then \
            GOAWAY) or 500 (to every later request), such as 30s=500.
            """, valueName: "time=fault"))
    var idle: String?

    @Flag(help: "Do not answer PING frames.")
    var silentPings = false

    @Flag(help: "Send no WINDOW_UPDATE: a connection accepts 65,535 bytes of payload.")
    var withholdWindows = false

    @Option(help: ArgumentHelp("INITIAL_WINDOW_SIZE of the first SETTINGS.", valueName: "bytes"))
    var initialWindow: UInt32?

    @Flag(help: "Send the body of an answer in DATA frames of one byte, and its headers in five frames.")
    var splitFrames = false

    @Option(help: ArgumentHelp("Most bytes of a TLS record.", valueName: "n"))
    var recordBytes = 16384

    func validate() throws {
        for limit in [maxStreams, tokenStreams, initialWindow ?? 0] where limit >= 1 << 31 {
            throw ValidationError("a limit of HTTP/2 must be below 2147483648")
        }
        if let goAwayEvery, goAwayEvery < 1 { throw ValidationError("--goaway-every must be at least 1") }
        guard (1...16384).contains(recordBytes) else { throw ValidationError("--record-bytes must be 1 to 16384") }
        var behaviour = Behaviour()
        do {
            try apply(to: &behaviour)
        } catch {
            throw ValidationError("\(error)")
        }
    }

    func apply(to behaviour: inout Behaviour) throws {
        behaviour.streamLimit = maxStreams
        behaviour.tokenStreamLimit = tokenStreams
        behaviour.limitWalk = try streamsWalk.map { try Behaviour.LimitWalk($0) }
        behaviour.overLimit = overLimit
        behaviour.dropsLimitAfterRejection = dropStreamsAfterRejection
        behaviour.goAwayEvery = goAwayEvery ?? 0
        try behaviour.greet(noSettings ? "nothing" : greeting)
        behaviour.connections =
            try connection.map { try Script.Turn($0, repeats: false) }
            + everyConnection.map { try Script.Turn($0, repeats: true) }
        behaviour.refusals = try refuse.map { try Behaviour.Refusal($0) }
        behaviour.connectLimit = try connectLimit.map { try Behaviour.ConnectLimit($0) }
        if let idle { try behaviour.idle(idle) }
        behaviour.ignoresPings = silentPings
        behaviour.withholdsWindowUpdates = withholdWindows
        behaviour.initialWindow = initialWindow
        behaviour.splitsFrames = splitFrames
        behaviour.recordBytes = recordBytes
    }
}

extension Behaviour.OverLimit: ExpressibleByArgument {}
