import Platform

@testable import RedisQueue

let start = Instant.now

/// A machine, and the effects of the facts that were reported to it.
struct MachineFixture {
    private(set) var machine: QueueMachine
    private var gathered: [QueueMachine.Effect] = []
    private let mode: QueueSettings.DeliveryMode

    init(mode: QueueSettings.DeliveryMode = .atLeastOnce, readsApps: Bool = false) {
        var settings = QueueSettings(list: "q", server: .unix(path: "/nowhere"), mode: mode)
        settings.readsApps = readsApps
        self.mode = mode
        machine = QueueMachine(settings: settings, worker: "me", seed: 7, now: start)
    }

    var phase: QueueMachine.Phase { machine.phase }
    var deadline: Instant? { mutating get { machine.deadline } }
    var sendingDeadline: Instant? { mutating get { machine.sendingDeadline } }
    var wantsPlaces: Bool { mutating get { machine.wantsPlaces(at: start) } }
    var held: [ClaimID] { machine.holdings.chunks.ids }

    /// Returns the effects since the last call, without the looks for campaigns.
    @discardableResult
    mutating func effects() -> [QueueMachine.Effect] {
        defer { gathered = [] }
        return gathered.filter { $0 != .call(.campaigns) }
    }

    mutating func connected() { machine.connected(into: &gathered) }
    mutating func lost(_ reason: String, at now: Instant = start) { machine.lost(reason, now: now, into: &gathered) }
    mutating func refused(at now: Instant) {
        machine.refused(.reply(ErrorReply("WRONGTYPE Operation against a key")), now: now, into: &gathered)
    }
    mutating func offer(_ places: Int, at now: Instant = start) { machine.offer(places: places, now: now) }
    mutating func settle(_ id: ClaimID, _ effect: Settlement.Effect, at now: Instant = start) {
        machine.settle(Settlement(id: id, effect: effect), now: now)
    }
    /// Redis applies the settlements among the effects.
    mutating func confirmSettlements() {
        for case .call(.settle(let batch)) in effects() {
            reply([.integer(1), .integer(0), .integer(-2)], to: .settle(batch))
        }
        effects()
    }
    mutating func launch(_ claim: ClaimedJob, _ order: CampaignOrder) {
        machine.launch(claim, order, isReachable: true, into: &gathered)
    }
    mutating func stop() { machine.stop() }
    mutating func rename(to worker: String) { machine.renamed(to: worker, into: &gathered) }
    mutating func advance(to now: Instant = start) { machine.advance(now: now, into: &gathered) }

    mutating func reply(_ reply: RedisReply, to call: Call, at now: Instant = start) {
        machine.received(reply, to: call, sentAt: now, now: now, isGone: { _ in false }, into: &gathered)
    }

    mutating func reply(_ items: [RedisReply], to call: Call, at now: Instant = start) {
        reply(.array(items), to: call, at: now)
    }

    /// Connects and registers.
    mutating func register(
        settled: String = "-1", counter: Int64 = 1, isExpected: Bool = false, deadLetters: Int64 = 0, feedback: Int64 = 0,
        epoch: String = "epoch", chunks: KeyValuePairs<String, String> = [:], taken: String = "-", jobs: Int64 = 0
    ) {
        connected()
        let items: [RedisReply] = [
            .integer(0), .string(bytes(settled)), .string(bytes(epoch)), .integer(0), .integer(-1),
            .integer(deadLetters), .integer(feedback),
            .array(chunks.flatMap { [.string(bytes($0.key)), .string(bytes($0.value))] }),
            .string(bytes(taken)), .integer(jobs),
        ]
        reply(items, to: .register(.init(counter: counter, confirmed: 0, isExpected: isExpected)))
    }

    /// The reply to a registration when another process uses the record.
    static func foreign(
        _ number: String, epoch: String = "epoch", settled: String = "0", chunks: KeyValuePairs<String, String> = [:]
    ) -> [RedisReply] {
        [
            .string(bytes("NUMBER")), .string(bytes(number)), .string(bytes(epoch)), .string(bytes(settled)),
            .array(chunks.flatMap { [.string(bytes($0.key)), .string(bytes($0.value))] }),
        ]
    }

    /// Connects and reconciles.
    mutating func serve() {
        advance()
        register()
        reply(.string(bytes("aof_enabled:1\r\n")), to: .info)
        effects()
    }

    static func claimReply(_ count: Int, drained: Int64, recovered: Int64 = 0, level: Int64 = 0) -> [RedisReply] {
        [.integer(drained), .integer(Int64(count)), .integer(level), .integer(0), .integer(recovered)]
    }

    static func claim(_ chunk: UInt64, _ count: Int, after: UInt64? = nil) -> Claim {
        Claim(chunk: chunk, count: count, fromSecond: 32, after: after)
    }

    /// The replies to a claim and to the read of its jobs.
    mutating func claim(
        _ jobs: [String], chunk: UInt64 = 1, asked: Int, drained: Int64, recovered: Int64 = 0, level: Int64 = 0
    ) {
        answer(MachineFixture.claim(chunk, asked), jobs, drained: drained, recovered: recovered, level: level)
    }

    /// The replies to a claim behind a wait.
    mutating func piggybackedClaim(_ jobs: [String], chunk: UInt64, drained: Int64) {
        answer(MachineFixture.claim(chunk, 32, after: 0), jobs, drained: drained)
    }

    private mutating func answer(
        _ claim: Claim, _ jobs: [String], drained: Int64, recovered: Int64 = 0, level: Int64 = 0
    ) {
        reply(
            MachineFixture.claimReply(jobs.count, drained: drained, recovered: recovered, level: level), to: .claim(claim))
        reply(jobs.map { .string(bytes($0)) }, to: .jobs(of: claim))
    }

    /// The end of the wait, with or without a job.
    mutating func wake(_ job: String?) { reply(job.map { .string(bytes($0)) } ?? .null, to: .wait) }

    /// Serves, and waits for an empty list.
    mutating func waitForJobs() {
        serve()
        offer(100)
        advance()
        claim([], asked: 100, drained: 1)
        advance()
        effects()
    }
}

/// The id of a job by its chunk and position.
func id(_ chunk: UInt64, _ place: Int) -> ClaimID { ClaimID(chunk: chunk, place: place) }
