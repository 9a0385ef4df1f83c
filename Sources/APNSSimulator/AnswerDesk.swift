import Glibc

/// What all connections share: the rules, the script, the ledger and the clock. One loop owns it.
final class AnswerDesk {
    /// What is done about one connection at its time.
    enum Due {
        case answer(Answer, stream: Int32)
        case endOfLinger
    }

    let environment: PushEnvironment
    let writer: LedgerWriter
    /// By connection number.
    var due = Deadlines<(connection: Int, due: Due)>()
    private let validator: RequestValidator
    private var verifier: ProviderTokenVerifier
    private var player: ScriptPlayer
    /// Made ids come from here, whatever the script draws.
    private var random: SeededRandom
    /// Monotonic, of this turn of the loop.
    private(set) var now = ContinuousClock.now
    /// Unix seconds of this turn, with what tests added.
    private(set) var unixTime: Int64 = 0
    private var clockOffset: Int64 = 0
    /// Milliseconds since 1970: when dead tokens died, unless a script says otherwise.
    private let start: Int64

    var behaviour: Behaviour {
        didSet { player.script = behaviour.script }
    }

    init(_ configuration: Simulator.Configuration, _ ledger: Ledger) throws(SimulatorError) {
        environment = configuration.environment
        validator = RequestValidator(
            authentication: configuration.authentication, topics: configuration.topics.map { Array($0.utf8) })
        verifier = try ProviderTokenVerifier(keys: configuration.providerKeys)
        behaviour = configuration.behaviour
        player = ScriptPlayer(configuration.behaviour.script)
        random = SeededRandom(seed: configuration.behaviour.script.seed ^ UInt64.random(in: 0...UInt64.max))
        writer = try LedgerWriter(ledger, configuration.ledgerDetail, filePath: configuration.ledgerPath)
        start = Int64(time(nil)) * 1000
        startTurn()
    }

    /// Reads the clocks, once a turn.
    func startTurn() {
        now = .now
        unixTime = Int64(time(nil)) + clockOffset
    }

    /// Lets provider tokens age.
    func advanceClock(seconds: Int64) {
        clockOffset += seconds
        unixTime += seconds
    }

    func plan(token: String, _ answers: [Answer]) { player.plan(token: token.utf8, answers) }

    /// What to do about a request; a request without `apns-id` gets one.
    func answer(_ request: inout Request, of peer: inout Peer) -> Answer {
        let fault = validator.fault(in: &request, of: &peer, &verifier, now: unixTime)
        // Where the client's own id is invalid, the answer carries a made one.
        if request.range(of: .apnsID) == nil || fault == .badMessageId { request.makeID(&random) }
        if let fault { return .status(fault.status, fault.rawValue) }
        return player.isPlain ? .accept : player.answer(for: request.token)
    }

    func uniqueID() -> [UInt8]? {
        if environment == .production { return nil }
        var text: [UInt8] = []
        UUIDText.append(random.next(), random.next(), to: &text)
        return text
    }

    func body(status: Int, reason: String, timestamp: Int64?) -> [UInt8] {
        var text = "{\"reason\":\(Totals.quoted(reason))"
        if status == 410 { text += ",\"timestamp\":\(timestamp ?? start)" }
        return Array((text + "}").utf8)
    }
}
