import Harness
import Platform

@testable import RedisQueue

/// The delivery protocol with two workers: their real machines, and the real scripts in a real Redis.
///
/// Each step is one of the things that may happen next: Redis runs the next command of a connection, a reply arrives, an owner
/// settles a job, time passes, or a fault. Commands of a broken connection may still run later, as those in the buffer of a
/// socket do. A worker may exist twice (a cloned machine), or return to an earlier state of its memory (a snapshot). After the
/// last step the workers settle everything, and stop.
final class DeliveryModel {
    enum Step: Equatable, CustomStringConvertible {
        case run(worker: Int, link: Int)
        case receive(worker: Int, link: Int)
        case settle(worker: Int, Kind)
        /// The worker begins to claim from side lists.
        case takeAsides(worker: Int)
        case tick
        case cut(worker: Int)
        /// The next command of a broken connection runs.
        case late
        case crash(worker: Int)
        /// The others consider the worker dead, although it runs.
        case suspect(worker: Int)
        /// A second process with the memory of the worker, whose connections are dead.
        case copy(worker: Int)
        /// A snapshot of the memory of a worker.
        case remember(worker: Int)
        /// The worker continues from the snapshot.
        case `return`
        /// A process that was copied notices that its connections are dead.
        case notice(worker: Int)
        case flush
        case save
        case restore

        enum Kind { case acknowledge, retry, release, setAside, keep }

        var isFault: Bool {
            switch self {
            case .run, .receive, .settle, .takeAsides, .tick, .late, .remember, .notice, .save: false
            case .cut, .crash, .suspect, .copy, .return, .flush, .restore: true
            }
        }

        var description: String {
            switch self {
            case .run(let worker, let link): "run \(worker).\(link)"
            case .receive(let worker, let link): "receive \(worker).\(link)"
            case .settle(let worker, let kind): "\(kind) \(worker)"
            case .takeAsides(let worker): "take asides \(worker)"
            case .tick: "tick"
            case .cut(let worker): "cut \(worker)"
            case .late: "late"
            case .crash(let worker): "crash \(worker)"
            case .suspect(let worker): "suspect \(worker)"
            case .copy(let worker): "copy \(worker)"
            case .remember(let worker): "remember \(worker)"
            case .return: "return"
            case .notice(let worker): "notice \(worker)"
            case .flush: "flush"
            case .save: "save"
            case .restore: "restore"
            }
        }
    }

    /// The situation in which a schedule begins.
    enum Start: CaseIterable {
        /// Two workers are registered, and the first is about to claim some jobs.
        case serving
        /// Redis was emptied, and the first worker, which holds jobs, is about to learn it from the reply to its registration.
        case emptied
        /// The only worker is registered. Its jobs belong to apps with side lists, and keep their order.
        case alone
        /// The first worker holds jobs, and exists twice.
        case copied
        /// The jobs have `replaces`: those of an app are states of one scope, and go through its slot.
        case scopes
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    private static let jobs = ["a", "b", "c", "d"]

    static func app(of job: String) -> String { job == "b" ? "y" : "x" }

    /// The job in an element of Redis, with marks or in front of them.
    static func text(_ element: String) -> String {
        element.hasSuffix("}") ? String(element.dropLast(2).suffix(1)) : String(element.suffix(1))
    }

    private let redis: ModelRedis
    private var workers: [ModelWorker] = []
    private var snapshot: (worker: Int, memory: ModelWorker)?
    private var late: [ModelWorker.Request] = []
    private var names = 0
    private var gone: Set<String> = []
    private var now = Instant.now
    private var sent: [String: Int] = [:]
    private var dead: Set<String> = []
    /// Jobs that neither Redis nor a living worker had after a fault.
    private var excused: Set<String> = []
    /// Possible duplicates that Redis had counted before it lost data.
    private var countedBefore: Int64 = 0
    /// Pushes that Redis cannot count: only a process knew of them that has ended, while another one of its name continued.
    private var untold = 0
    private var faults = 0
    /// Whether one process existed twice, or continued from a snapshot.
    private var isCopied = false
    /// Nothing happened that may change the order of the jobs of an app.
    private var isOrderly = false
    /// The jobs have scopes.
    private var hasScopes = false
    /// The acceptances of each scope.
    private var order: [String: [String]] = [:]
    /// A job may have been sent by two workers at the same time.
    private var mayReorder = false
    private var isFlushed = false
    private var isRestored = false
    private var hasTakeOver = false
    private var hasSaved = false
    private(set) var trace: [Step] = []
    private(set) var steps = 0

    /// Whether workers are copied and return to snapshots. One random schedule in several thousand fails then, for example
    /// SEED=102610: a copy leaves its jobs to the other process, although Redis was emptied after the reply that says so.
    /// docs/design.md, "Registration", lists the open cases.
    private let hasCopies: Bool

    init(hasCopies: Bool) throws {
        self.hasCopies = hasCopies
        redis = try ModelRedis()
    }

    private func begin(_ start: Start) throws {
        try redis.run("FLUSHALL")
        (workers, late, gone, sent, dead, excused, trace) = ([], [], [], [:], [], [], [])
        (faults, countedBefore, isFlushed, isRestored, hasTakeOver, hasSaved) = (0, 0, false, false, false, false)
        (snapshot, untold, isCopied, isOrderly) = (nil, 0, false, start == .alone)
        (hasScopes, order, mayReorder) = (start == .scopes, [:], false)
        for job in DeliveryModel.jobs {
            try redis.run("RPUSH", "jobs", hasScopes ? #"{"replaces":"s","n":"\#(job)"}"# : job)
        }
        for _ in 0..<(start == .alone ? 1 : 2) { workers.append(makeWorker()) }
        for worker in workers.indices {
            workers[worker].advance(now: now)
            for _ in 0..<6 where !workers[worker].links[0].isEmpty { try pump(worker, 0) }
            guard workers[worker].isServing else { throw Failure(description: "the model does not start") }
        }
        switch start {
        case .serving, .alone, .scopes: break
        case .emptied: try emptyRedis()
        case .copied:
            try claimJobs()
            copy(0)
        }
    }

    private func claimJobs() throws {
        for _ in 0..<20 where workers[0].jobs.isEmpty {
            tick()
            try pump(0, 0)
        }
    }

    private func emptyRedis() throws {
        try claimJobs()
        cut(0)
        try flush()
        for _ in 0..<20 where workers[0].links[0].isEmpty { tick() }
        guard !workers[0].jobs.isEmpty, workers[0].links[0].requests.count == 1 else {
            throw Failure(description: "the model does not start with an emptied Redis")
        }
        try execute(0, 0)
    }

    private func makeWorker() -> ModelWorker {
        names += 1
        return ModelWorker(names, redis.settings, now: now)
    }

    // MARK: Runs

    /// Runs one schedule. `choose` gets the number of possible steps and returns one; `nil` ends the schedule.
    func run(from start: Start, mostFaults: Int, _ choose: (Int) -> Int?) throws {
        try begin(start)
        while true {
            let possible = steps(mostFaults: mostFaults)
            guard let choice = choose(possible.count) else { break }
            try perform(possible[choice])
        }
        try finish()
    }

    private func steps(mostFaults: Int) -> [Step] {
        var steps: [Step] = []
        for (index, worker) in workers.enumerated() {
            for link in 0...1 {
                if !worker.links[link].replies.isEmpty { steps.append(.receive(worker: index, link: link)) }
                if !worker.links[link].requests.isEmpty { steps.append(.run(worker: index, link: link)) }
            }
            // A copy settles nothing before it notices: the other process may send a batch of the same number.
            if !worker.jobs.isEmpty && !worker.isDeaf { steps += kinds(worker).map { .settle(worker: index, $0) } }
            if !worker.asides.isEmpty && !worker.takesAsides { steps.append(.takeAsides(worker: index)) }
            if worker.isDeaf { steps.append(.notice(worker: index)) }
            if hasCopies && snapshot == nil { steps.append(.remember(worker: index)) }
        }
        steps.append(.tick)
        if !late.isEmpty { steps.append(.late) }
        if !hasSaved { steps.append(.save) }
        if faults < mostFaults {
            for worker in workers.indices { steps += [.cut(worker: worker), .crash(worker: worker), .suspect(worker: worker)] }
            if hasCopies && workers.count < 3 { for worker in workers.indices { steps.append(.copy(worker: worker)) } }
            if snapshot != nil { steps.append(.return) }
            steps.append(.flush)
            if hasSaved { steps.append(.restore) }
        }
        return steps
    }

    private func kinds(_ worker: ModelWorker) -> [Step.Kind] {
        if !hasScopes { return [.acknowledge, .retry, .release, .setAside] }
        return worker.jobs.first?.isFromSlot == true ? [.acknowledge, .retry, .release] : [.keep]
    }

    private func perform(_ step: Step) throws {
        steps += 1
        trace.append(step)
        if step.isFault { faults += 1 }
        switch step {
        case .run(let worker, let link): try execute(worker, link)
        case .receive(let worker, let link): receive(worker, link)
        case .settle(let worker, let kind): settle(worker, kind)
        case .takeAsides(let worker):
            workers[worker].takesAsides = true
            workers[worker].advance(now: now)
        case .tick: tick()
        case .cut(let worker): cut(worker)
        case .late: try runLate()
        case .crash(let worker):
            hasTakeOver = true
            let name = workers[worker].name
            try end(worker, continuingAs: makeWorker())
            if !workers.contains(where: { $0.name == name }) { gone.insert(name) }
        case .suspect(let worker):
            hasTakeOver = true
            mayReorder = true
            gone.insert(workers[worker].name)
        case .copy(let worker): copy(worker)
        case .remember(let worker): snapshot = (worker, workers[worker].copied(instance: 0))
        case .return:
            guard let (worker, memory) = snapshot else { break }
            isCopied = true
            names += 1
            try end(worker, continuingAs: memory.copied(instance: names))
        case .notice(let worker): workers[worker].lose(now: now)
        case .flush: try flush()
        case .save:
            hasSaved = true
            try redis.save()
        case .restore:
            isRestored = true
            try loseData { try redis.restore() }
        }
        switch step {
        case .run, .receive, .settle(_, .acknowledge), .settle(_, .setAside), .takeAsides, .tick, .remember, .save: break
        default: isOrderly = false
        }
        try check()
    }

    // MARK: Steps

    private func execute(_ worker: Int, _ link: Int) throws {
        let request = workers[worker].links[link].requests[0]
        guard let reply = try reply(to: request) else { return }
        workers[worker].links[link].requests.removeFirst()
        workers[worker].links[link].replies.append((request.call, reply))
    }

    /// `nil`: the command blocks.
    private func reply(to request: ModelWorker.Request) throws -> RedisReply? {
        guard request.call == .wait else { return try redis.run(request.bytes) }
        let head = try redis.run("LMOVE", "jobs", "jobs", "LEFT", "LEFT")
        return head == .null ? nil : head
    }

    private func receive(_ worker: Int, _ link: Int) {
        let gone = gone
        workers[worker].receive(on: link, now: now) { gone.contains($0) }
    }

    private func pump(_ worker: Int, _ link: Int) throws {
        if !workers[worker].links[link].requests.isEmpty { try execute(worker, link) }
        if !workers[worker].links[link].replies.isEmpty { receive(worker, link) }
    }

    private func settle(_ worker: Int, _ kind: Step.Kind) {
        guard let job = workers[worker].jobs.first else { return }
        switch kind {
        case .acknowledge:
            accepted(job)
            workers[worker].settle(job, .ack, scope: scope(of: job), now: now)
        case .keep: keep(worker, job)
        case .retry where hasScopes: keep(worker, job, due: .after(.zero), .retried)
        case .release where hasScopes: keep(worker, job)
        case .retry: workers[worker].settle(job, .delay(job: job.bytes, .after(.zero), isRetry: true), now: now)
        case .release:
            let app = workers[worker].app(of: job)
            let aside = workers[worker].asides.contains(app) ? app : nil
            workers[worker].settle(job, .release(toTail: false), aside: aside, now: now)
        case .setAside:
            workers[worker].takesAsides = false
            // A job that was claimed from there returns in front of those that were behind it.
            let effect = Settlement.Effect.release(toTail: !job.wasClaimed)
            workers[worker].settle(job, effect, aside: workers[worker].app(of: job), now: now)
        }
    }

    private func text(_ job: ClaimedJob) -> String { DeliveryModel.text(String(decoding: job.bytes, as: UTF8.self)) }

    private func accepted(_ job: ClaimedJob) {
        sent[text(job), default: 0] += 1
        order[DeliveryModel.app(of: text(job)), default: []].append(text(job))
    }

    /// Puts a job into its slot.
    private func keep(_ worker: Int, _ job: ClaimedJob, due: Settlement.Due? = nil, _ count: SlotEntry.Count = .released) {
        guard let scope = scope(of: job) else { return }
        let entry = SlotEntry(scope, job: RankMark.adding(scope.rank, to: job.bytes), due: due, count: count)
        workers[worker].settle(job, .slot(entry), now: now)
    }

    private func scope(of job: ClaimedJob) -> Scope? {
        if !hasScopes { return nil }
        let json = String(decoding: job.bytes, as: UTF8.self)
        let mark = json.firstRange(of: "\"\(RankMark.key)\":").map { json[$0.upperBound...].prefix(while: \.isNumber) }
        let rank = mark.flatMap { UInt64($0) } ?? job.rank
        return Scope(app: "", lane: "t::\(DeliveryModel.app(of: text(job)))", name: "s", rank: rank, event: .update)
    }

    /// Time passes until a worker has something to do.
    private func tick() {
        var next = Earliest()
        for worker in workers.indices where !workers[worker].hasStopped { next.consider(workers[worker].deadline) }
        now = max(now + .milliseconds(1), next.instant ?? now)
        for worker in workers.indices { workers[worker].advance(now: now) }
    }

    private func copy(_ worker: Int) {
        isCopied = true
        names += 1
        workers.append(workers[worker].copied(instance: names))
    }

    /// The process ends, and another one takes its place.
    private func end(_ worker: Int, continuingAs next: ModelWorker) throws {
        leaveBehind(worker)
        // A snapshot of it may continue.
        if isCopied || snapshot?.memory.name == workers[worker].name { untold += workers[worker].unsettled.count }
        workers[worker] = next
        if isFlushed || isRestored { try excuseLostJobs() }
        workers[worker].advance(now: now)
    }

    private func leaveBehind(_ worker: Int) {
        for link in workers[worker].links { late += link.requests.filter { $0.call != .wait } }
    }

    private func cut(_ worker: Int) {
        leaveBehind(worker)
        workers[worker].lose(now: now)
    }

    private func runLate() throws { _ = try redis.run(late.removeFirst().bytes) }

    private func flush() throws {
        isFlushed = true
        try loseData { try redis.run("FLUSHALL") }
    }

    private func loseData(_ fault: () throws -> Void) throws {
        countedBefore += try maybeDuplicates()
        try fault()
        countedBefore -= try maybeDuplicates()
        try excuseLostJobs()
    }

    private func maybeDuplicates() throws -> Int64 { try redis.status().counters[.maybeDuplicate, default: 0] }

    /// Only jobs that are neither in Redis nor in the memory of a living worker may be lost.
    private func excuseLostJobs() throws {
        let kept = Set(try jobsInRedis()).union(workers.flatMap(\.heldJobs))
        excused.formUnion(DeliveryModel.jobs.filter { !kept.contains($0) })
    }

    // MARK: Checks

    /// All jobs in Redis that have no end.
    private func jobsInRedis() throws -> [String] {
        var copies: [String] = []
        for list in ["jobs"] + Keys(list: "jobs").recovered { copies += try redis.run("LRANGE", list, "0", "-1").texts }
        for list in try sideLists() { copies += list.jobs }
        copies += try redis.run("ZRANGE", Keys(list: "jobs").delayed, "0", "-1").texts
        copies += try redis.run("HVALS", Keys(list: "jobs").states).texts
        var script: [UInt8] = []
        script.appendCommand(Arguments(DeliveryModel.heldJobs))
        return (copies + (try redis.run(script).texts)).map(DeliveryModel.text)
    }

    private func sideLists() throws -> [(app: String, jobs: [String])] {
        try ["x", "y"].map { ($0, try redis.run("LRANGE", Keys(list: "jobs").aside($0), "0", "-1").texts) }
    }

    /// The jobs of an app are in their order: those of its side list, and behind them those of the list.
    private func checkOrder() throws {
        let list = try redis.run("LRANGE", "jobs", "0", "-1").texts
        for (app, jobs) in try sideLists() {
            let all = jobs + list.filter { DeliveryModel.app(of: $0) == app }
            if all != all.sorted() { throw Failure(description: "the jobs of \(app) are out of order: \(all)") }
        }
    }

    private func check() throws {
        if isOrderly { try checkOrder() }
        if isFlushed || isRestored { return }
        let copies = try jobsInRedis()
        for job in DeliveryModel.jobs where copies.count(where: { $0 == job }) > 1 {
            throw Failure(description: "\(job) is in Redis more than once: \(copies)")
        }
    }

    private static let heldJobs = ["EVAL", heldJobsInLua + "return held('{jobs}:gapless:chunks:*', {})", "0"]

    /// The workers settle everything and stop, without further faults.
    private func finish() throws {
        for name in Set(workers.map(\.name)) { gone.remove(name) }
        while !late.isEmpty { try runLate() }
        for worker in workers.indices {
            if workers[worker].isDeaf { workers[worker].lose(now: now) }
            workers[worker].takesAsides = true
        }
        var rounds = 0
        while try !isDrained() {
            rounds += 1
            if rounds > 400 { throw Failure(description: "no more progress: \(workers.map(\.summary)) \(try redis.status())") }
            try round()
            for worker in workers.indices {
                while let job = workers[worker].jobs.first {
                    if hasScopes && !job.isFromSlot {
                        keep(worker, job)
                    } else {
                        accepted(job)
                        workers[worker].settle(job, .ack, scope: scope(of: job), now: now)
                    }
                }
                while let job = workers[worker].suspects.first {
                    dead.insert(text(job))
                    let letter = Settlement.Effect.deadLetter(record: job.bytes, isExpired: false)
                    workers[worker].settle(job, letter, scope: scope(of: job), now: now)
                }
            }
        }
        for worker in workers.indices { workers[worker].stop() }
        for _ in 0..<400 where workers.contains(where: { !$0.hasStopped }) { try round() }
        try checkEnd()
    }

    private func round() throws {
        for worker in workers.indices {
            for link in 0...1 {
                for _ in 0..<8 { try pump(worker, link) }
            }
        }
        tick()
    }

    private func isDrained() throws -> Bool {
        let status = try redis.status()
        return status.backlog + status.delayed + status.inFlight + status.recovered == 0 && workers.allSatisfy(\.isSettled)
            && workers.allSatisfy(\.isServing) && Set(status.workers.map(\.name)) == Set(workers.map(\.name))
    }

    private func checkEnd() throws {
        // Of a scope only the last job has to be sent.
        let wanted = hasScopes ? ["b", "d"] : DeliveryModel.jobs
        let lost = wanted.filter { sent[$0] == nil && !dead.contains($0) && !excused.contains($0) }
        if !lost.isEmpty { throw Failure(description: "lost: \(lost)") }
        if hasScopes && !isFlushed && !isRestored && !isCopied && !mayReorder {
            for (app, jobs) in order where jobs != jobs.sorted() {
                throw Failure(description: "the states of \(app) are out of order: \(jobs)")
            }
        }
        let hasTakeOver = hasTakeOver || workers.contains(where: \.hasTakenOver)
        if !hasTakeOver && !isCopied && !isFlushed && !isRestored, let job = sent.first(where: { $0.value > 1 }) {
            throw Failure(description: "\(job.key) was sent \(job.value) times, although only connections broke")
        }
        let extra = sent.values.reduce(0) { $0 + $1 - 1 }
        let counted = countedBefore + (try maybeDuplicates())
        if extra > counted + Int64(untold) {
            throw Failure(description: "\(extra) pushes too many, but maybe_duplicate is \(counted), untold \(untold): \(sent)")
        }
        let status = try redis.status()
        if status.unexplained != 0 { throw Failure(description: "claimed jobs without an end: \(status.unexplained)") }
        if workers.contains(where: { !$0.hasStopped }) { throw Failure(description: "a worker does not stop") }
        // Slots without jobs stay for a while.
        let keys = Keys(list: "jobs")
        let kept = hasScopes ? [keys.slots, keys.scope(""), keys.asides] : []
        let left = try redis.keys().filter { !$0.hasSuffix(":stats") && !$0.hasSuffix(":dead") && !kept.contains($0) }
        if !left.isEmpty { throw Failure(description: "keys are left: \(left)") }
    }
}

extension RedisReply {
    fileprivate var texts: [String] { items?.compactMap(\.text) ?? [] }
}
