import Glibc
import Platform

/// The shared state of all connections: rules, script, ledger and clock. Owned by the loop.
final class ServerContext {
    /// A timed action of a connection.
    enum Due {
        case answer(Answer, stream: Int32)
        case goAway(GoAway)
        case endOfLinger
        case idleCheck
        case newLimit
        case newWindow
    }

    let environment: PushEnvironment
    let writer: LedgerWriter
    /// By connection number.
    var due = Deadlines<(connection: Int, due: Due)>()
    private let validator: RequestValidator
    private var verifier: ProviderTokenVerifier
    private var player: ScriptPlayer
    private var devices = DeviceRulePlayer()
    private var channels: Channels
    private var channelRates = ChannelRatePlayer()
    /// Channel management requests so far.
    private var managed = 0
    /// Generates ids, independent of the script's numbers.
    private var random: SeededRandom
    /// Generates the limits of a limit walk from the seed of the script.
    private var walkRandom: SeededRandom
    /// The monotonic time of this turn of the loop.
    private(set) var now = Instant.now
    /// Unix seconds of this turn, with the offset of tests.
    private(set) var unixTime: Int64 = 0
    private var clockOffset: Int64 = 0
    /// Milliseconds since 1970. The default timestamp of a 410.
    private let start: Int64

    var behaviour: Behaviour {
        didSet {
            player.script = behaviour.script
            devices.rules = behaviour.devices
            (channels.limit, channelRates.rate) = (behaviour.channelLimit, behaviour.channelRate)
        }
    }

    init(
        _ configuration: Simulator.Configuration, _ ledger: Ledger, _ recent: RecentPushes?
    ) throws(SimulatorError) {
        environment = configuration.environment
        validator = RequestValidator(
            authentication: configuration.authentication, topics: configuration.topics.map { Array($0.utf8) })
        verifier = try ProviderTokenVerifier(keys: configuration.providerKeys)
        behaviour = configuration.behaviour
        player = ScriptPlayer(configuration.behaviour.script)
        devices.rules = configuration.behaviour.devices
        channels = Channels(enabled: configuration.broadcastTopics)
        for channel in configuration.channels {
            channels.add(channel.id, app: channel.app, storagePolicy: channel.stores ? 1 : 0)
        }
        channels.limit = configuration.behaviour.channelLimit
        channelRates.rate = configuration.behaviour.channelRate
        random = SeededRandom(seed: configuration.behaviour.script.seed ^ UInt64.random(in: 0...UInt64.max))
        walkRandom = SeededRandom(seed: SeededRandom.mix(configuration.behaviour.script.seed))
        writer = try LedgerWriter(ledger, configuration.ledgerDetail, filePath: configuration.ledgerPath, recent: recent)
        start = Int64(time(nil)) * 1000
        startTurn()
    }

    /// Reads the clocks, once per turn.
    func startTurn() {
        now = .now
        unixTime = Int64(time(nil)) + clockOffset
    }

    /// Advances the clock that provider tokens are checked with.
    func advanceClock(seconds: Int64) {
        clockOffset += seconds
        unixTime += seconds
    }

    func plan(token: String, _ answers: [Answer]) { player.plan(token: token.utf8, answers) }

    /// Returns the answer to a request. Adds an id to a request without one.
    ///
    /// - Parameter connection: the number of the connection.
    func answer(_ request: inout Request, of peer: inout Peer, on connection: Int) -> Answer {
        if let fault = fault(in: &request, of: &peer) { return .reason(fault) }
        if let turn = behaviour.connections.first(where: { $0.isDue(at: connection) }) { return turn.answer }
        if request.kind == .broadcast, !channelRates.admits(Array(request.token), &walkRandom, now: now) {
            return .reason(.tooManyRequests)
        }
        if request.kind == .device, !devices.rules.isEmpty {
            let token = ScriptPlayer.key(request.token)
            if !player.hasPlan(for: token),
                let answer = devices.answer(token: token, topic: request[.topic], environment, now: now)
            {
                return answer
            }
        }
        return player.isPlain ? .accept : player.answer(for: request.token)
    }

    private func fault(in request: inout Request, of peer: inout Peer) -> Reason? {
        var fault = validator.fault(in: &request, of: &peer, &verifier, now: unixTime)
        if !verifier.firstSeen.isEmpty {
            writer.totals.providerTokens.merge(verifier.firstSeen, uniquingKeysWith: +)
            verifier.firstSeen = [:]
        }
        if fault == nil && !behaviour.refusals.isEmpty {
            fault = behaviour.refusal(certificate: peer.certificate != nil, key: peer.tokens.key?.keyID)
        }
        if fault == nil && request.kind != .device { fault = validator.appFault(request, peer) }
        if fault == nil && request.kind == .broadcast { fault = channels.fault(of: request) }
        // An invalid id of the client is replaced in the answer.
        if request.range(of: request.idField) == nil || fault == .badMessageId { request.makeID(&random) }
        return fault
    }

    /// Returns the scripted answer to the next channel management request.
    func managementAnswer() -> Answer {
        managed += 1
        return behaviour.managementTurns.first { $0.isDue(at: managed) }?.answer ?? .accept
    }

    /// Executes a channel management request.
    func manage(_ request: inout Request, of peer: inout Peer) -> Channels.Reply {
        writer.totals.channelRequests += 1
        if let fault = fault(in: &request, of: &peer) { return refusal(fault) }
        do {
            return try channels.manage(request, &random)
        } catch {
            return refusal(error.reason)
        }
    }

    func refusal(_ reason: Reason) -> Channels.Reply {
        Channels.Reply(status: reason.status, body: body(status: reason.status, reason: reason.rawValue, timestamp: nil))
    }

    func uniqueID() -> [UInt8]? {
        if environment == .production { return nil }
        var text: [UInt8] = []
        UUIDText.append(random.next(), random.next(), to: &text)
        return text
    }

    /// Returns whether a connection belongs to a random share.
    func draws(_ share: Double) -> Bool { share >= 1 || walkRandom.fraction() < share }

    /// Returns a random limit: the highest (1/3), the lowest (1/6), one above the lowest (1/6), or any (1/3).
    func limit(of walk: Behaviour.LimitWalk) -> UInt32 {
        let (low, high) = (walk.bounds.lowerBound, walk.bounds.upperBound)
        switch walkRandom.next() % 6 {
        case 0, 1: return high
        case 2: return low
        case 3: return min(low + 1, high)
        default: return low + UInt32(walkRandom.next() % UInt64(high - low + 1))
        }
    }

    func body(status: Int, reason: String, timestamp: Int64?) -> [UInt8] {
        var text = "{\"reason\":\(reason.quotedJSON)"
        if status == 410 { text += ",\"timestamp\":\(timestamp ?? start)" }
        return Array((text + "}").utf8)
    }
}

/// Counts new connections, and rejects all for a time after the limit is exceeded.
struct ConnectGate {
    private var recent: [Instant] = []
    private var closedUntil: Instant?

    mutating func admits(_ limit: Behaviour.ConnectLimit, now: Instant) -> Bool {
        if let closedUntil, now < closedUntil { return false }
        closedUntil = nil
        recent.removeAll { now - $0 >= limit.window }
        guard recent.count < limit.count else {
            closedUntil = now + limit.block
            recent.removeAll()
            return false
        }
        recent.append(now)
        return true
    }
}
