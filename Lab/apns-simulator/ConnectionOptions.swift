public import APNSSimulator
public import ArgumentParser

struct ConnectionOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Streams that a connection may have open.", valueName: "n"))
    var maxStreams: UInt32 = 1000

    @Option(
        help: ArgumentHelp(
            "The same without a client certificate, before the first accepted push.", valueName: "n"))
    var tokenStreams: UInt32 = 1

    @Option(
        help: ArgumentHelp(
            "Another limit from time to time, at random, as 50ms=0..1000.", valueName: "time=low..high"))
    var streamsWalk: String?

    @Option(
        help: ArgumentHelp(
            "What a stream above the limit gets: refuse, refuse-twice (and STREAM_CLOSED) or goaway.", valueName: "answer"))
    var overLimit = Behaviour.OverLimit.refuse

    @Flag(help: "Allow one stream after a rejection, until the next push is accepted.")
    var dropStreamsAfterRejection = false

    @Option(
        name: .customLong("goaway-every"),
        help: ArgumentHelp("GOAWAY after each so many requests of a connection.", valueName: "n"))
    var goAwayEvery: Int?

    @Option(
        help: ArgumentHelp(
            """
            What a new connection hears: settings, nothing (no SETTINGS, nor anything else), tarpit (no TLS either) or \
            goaway[:KIND[:TEXT]]; a share behind it, as nothing=10%.
            """, valueName: "greeting"))
    var greeting = "settings"

    @Flag(help: "The same as --greeting nothing.")
    var noSettings = false

    @Option(
        help: ArgumentHelp(
            """
            A credential that is refused though it is good: certificate (a TLS alert to whoever shows one), certificate=REASON \
            or KEYID=REASON (that answer to each push); repeatable.
            """, valueName: "credential=reason"))
    var refuse: [String] = []

    @Option(
        help: ArgumentHelp(
            "Reset new connections for a while when too many came, as 20/1s:5s.", valueName: "n/time:block"))
    var connectLimit: String?

    @Option(
        help: ArgumentHelp(
            "What the n-th connection answers to every valid push, as 2=500; repeatable.", valueName: "n=answer"))
    var connection: [String] = []

    @Option(help: ArgumentHelp("The same for every n-th connection; repeatable.", valueName: "n=answer"))
    var everyConnection: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            What a connection gets on which nothing was asked for so long: goaway or 400 (IdleTimeout), or 500 to all that \
            follows, as 30s=500.
            """, valueName: "time=fault"))
    var idle: String?

    @Flag(help: "Leave PINGs unanswered.")
    var silentPings = false

    @Flag(help: "Never enlarge a window: 65,535 bytes of payload are all that a connection takes.")
    var withholdWindows = false

    @Option(help: ArgumentHelp("INITIAL_WINDOW_SIZE of the first SETTINGS.", valueName: "bytes"))
    var initialWindow: UInt32?

    @Flag(help: "Answer in DATA frames of one byte, and header blocks in five pieces.")
    var splitFrames = false

    @Option(help: ArgumentHelp("Bytes in one TLS record.", valueName: "n"))
    var recordBytes = 16384

    func validate() throws {
        for limit in [maxStreams, tokenStreams, initialWindow ?? 0] where limit >= 1 << 31 {
            throw ValidationError("a limit of HTTP/2 is below 2147483648")
        }
        if let goAwayEvery, goAwayEvery < 1 { throw ValidationError("--goaway-every is 1 or more") }
        guard (1...16384).contains(recordBytes) else { throw ValidationError("--record-bytes is 1 to 16384") }
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
