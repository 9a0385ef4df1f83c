import Platform
import Testing

@testable import RedisQueue

/// One worker of the model: the machine, and the commands and replies that are under way on its two connections.
struct ModelWorker {
    /// A command that Redis has not run.
    struct Request {
        var call: Call
        var bytes: [UInt8]
    }

    struct Link {
        var requests: [Request] = []
        var replies: [(call: Call, reply: RedisReply)] = []

        var isEmpty: Bool { requests.isEmpty && replies.isEmpty }
    }

    static let places = 3

    private(set) var name: String
    /// Another one in each copy of a worker: a process that needs a new name gets one that no other process has.
    private var instance: Int
    private var renames = 0
    private let settings: QueueSettings
    private(set) var machine: QueueMachine
    private var encoder: CallEncoder
    /// The first one carries the scripts, the second one waits.
    var links = [Link(), Link()]
    /// The jobs that the owner may send.
    private(set) var jobs: [ClaimedJob] = []
    private(set) var suspects: [ClaimedJob] = []
    private(set) var hasStopped = false
    private(set) var warnings: [String] = []
    private(set) var disowned: [ClaimID] = []
    /// It has taken over jobs of a worker that was silent for a lease.
    private(set) var hasTakenOver = false
    /// The jobs that it has acknowledged since Redis has confirmed all of its settlements.
    private(set) var unsettled: [String] = []
    /// It has not noticed that its connections are dead: Redis gets nothing that it sends.
    private(set) var isDeaf = false
    /// The apps whose side lists have jobs, as far as it knows.
    private(set) var asides: [String] = []
    /// The apps with slots, as far as it knows.
    private(set) var slots: [String] = []
    /// Whether it claims from side lists.
    var takesAsides = false
    private var effects: [QueueMachine.Effect] = []
    /// The phase after the last fact.
    private var phase = QueueMachine.Phase.disconnected

    init(_ number: Int, _ settings: QueueSettings, now: Instant) {
        name = "w\(number)"
        instance = number
        self.settings = settings
        machine = QueueMachine(settings: settings, worker: name, seed: UInt64(number), now: now)
        encoder = CallEncoder(
            settings: settings, worker: WorkerName(text: name, host: "model", pid: number), information: [],
            epochSeed: Int64(number) << 32)
    }

    var isServing: Bool { machine.phase == .serving }
    var isSettled: Bool { machine.holdings.isEmpty }
    var deadline: Instant? { mutating get { machine.deadline } }
    var heldCount: Int { machine.holdings.chunks.count }
    /// The jobs in its memory, until Redis has confirmed their settlement. A confirmation may be under way.
    var heldJobs: [String] {
        let held = machine.holdings.chunks
        var confirmed: Set<ClaimID> = []
        for case (.settle(let batch), .array) in links[0].replies { confirmed.formUnion(batch.ids) }
        return held.ids.filter { !confirmed.contains($0) }.compactMap { held.bytes(of: $0) }
            .map { DeliveryModel.text(String(decoding: $0, as: UTF8.self)) }
    }

    /// For a failure.
    var summary: String {
        "\(name) \(machine.phase) \(machine.number), holds \(heldJobs) of which \(jobs.count) may be sent; calls: "
            + "\(links.map { $0.requests.map(\.call) }), replies: \(links.map { $0.replies.map(\.call) })"
    }

    mutating func stop() { machine.stop() }

    /// A second process with the same memory: a cloned machine, or a snapshot. Replies that had arrived are there, too.
    func copied(instance: Int) -> ModelWorker {
        var copy = self
        copy.instance = instance
        for link in copy.links.indices { copy.links[link].requests = [] }
        copy.isDeaf = true
        return copy
    }

    func app(of job: ClaimedJob) -> String { DeliveryModel.app(of: String(decoding: job.bytes, as: UTF8.self)) }

    mutating func advance(now: Instant) {
        if hasStopped { return }
        let places = max(0, ModelWorker.places - heldCount)
        machine.offer(places: places, now: now)
        for app in slots { machine.offer(places: places, slots: app) }
        for app in asides { machine.offer(places: takesAsides ? places : 0, aside: app, now: now) }
        machine.advance(now: now, into: &effects)
        perform(now: now)
        if machine.holdings.isSettled { unsettled = [] }
    }

    /// The next reply on a connection arrives.
    mutating func receive(on link: Int, now: Instant, isGone: (String) -> Bool) {
        let (call, reply) = links[link].replies.removeFirst()
        if case .error(let error) = reply, error.kind == .scriptMissing {
            encoder.forgetScripts()
            send(call, on: 0)
        } else {
            machine.received(reply, to: call, sentAt: now, now: now, isGone: isGone, into: &effects)
        }
        perform(now: now)
        advance(now: now)
    }

    mutating func lose(now: Instant) {
        machine.lost("cut", now: now, into: &effects)
        isDeaf = false
        perform(now: now)
    }

    mutating func settle(
        _ job: ClaimedJob, _ effect: Settlement.Effect, aside: String? = nil, scope: Scope? = nil, now: Instant
    ) {
        jobs.removeAll { $0.id == job.id }
        suspects.removeAll { $0.id == job.id }
        // Long enough ago that it is sent now.
        let past = now - .seconds(1)
        if effect == .ack { unsettled.append(String(decoding: job.bytes, as: UTF8.self)) }
        if effect == .ack && scope == nil {
            machine.acknowledge(job.id, now: past)
        } else {
            machine.settle(Settlement(id: job.id, effect: effect, aside: aside, scope: scope), now: past)
        }
        advance(now: now)
    }

    private mutating func send(_ call: Call, on link: Int) {
        if isDeaf { return }
        var bytes: [UInt8] = []
        encoder.write(call, number: machine.number, to: &bytes)
        links[link].requests.append(Request(call: call, bytes: bytes))
        if case .claim(let claim) = call { send(.jobs(of: claim), on: link) }
    }

    private mutating func rename() {
        renames += 1
        name = "w\(instance)" + String(repeating: "'", count: renames)
        encoder = CallEncoder(
            settings: settings, worker: WorkerName(text: name, host: "model", pid: instance), information: [],
            epochSeed: Int64(instance) << 32 + Int64(renames) << 16)
        machine.renamed(to: name, into: &effects)
    }

    private mutating func perform(now: Instant) {
        checkPhase()
        while !effects.isEmpty {
            let due = effects
            effects = []
            for effect in due {
                switch effect {
                case .dial:
                    encoder.forgetScripts()
                    machine.connected(into: &effects)
                case .hangUp: links = [Link(), Link()]
                case .call(let call): send(call, on: 0)
                case .wait(let claim):
                    send(.wait, on: 1)
                    if let claim { send(.claim(claim), on: 1) }
                case .report(.claimed(let new)): jobs += new
                case .report(.suspects(let new)): suspects += new
                case .report(.disowned(let ids, _)):
                    disowned += ids
                    jobs.removeAll { ids.contains($0.id) }
                case .report(.connected(let new)): warnings += new
                case .report(.recovered(_, let jobs)): if jobs > 0 { hasTakenOver = true }
                case .report(.aside(let apps)): asides = apps
                case .report(.slots(let apps)): slots = apps
                case .report(.stopped): hasStopped = true
                case .rename: rename()
                case .report, .follow, .learn: break
                }
                checkPhase()
            }
        }
    }

    /// Compares the last change of the phase with the table of the machine. One fact may lead through two phases.
    private mutating func checkPhase() {
        let (next, table) = (machine.phase, QueueMachine.transitions)
        let between = table[phase, default: [:]].keys
        if next != phase, !between.contains(next), !between.contains(where: { table[$0]?[next] != nil }) {
            Issue.record("\(phase) is followed by \(next)")
        }
        phase = next
    }
}
