import RedisQueue

@testable import gaplessd

/// The truth about every job of a run, from the simulated producer and the simulated APNs.
final class Ledger {
    /// One request for a job.
    final class Attempt {
        let job: Int
        let worker: Int
        /// APNs has accepted it.
        var isAccepted = false
        /// The session has read the response.
        var isAnswered = false
        /// A fault hides whether APNs has accepted it: then another acceptance is no error.
        var isDoubtful = false

        init(job: Int, worker: Int) { (self.job, self.worker) = (job, worker) }
    }

    struct Job {
        var attempts: [Attempt] = []
        /// Responses other than 2xx, and requests without a response.
        var failures = 0
        var deadLetters = 0
        /// How often others took it over from a dead worker.
        var recoveries = 0
        var mayExpire = false
        var app = 0
        /// Of a state (`replaces`): its scope, and its place among the states of the scope in the list.
        var scope: Int?
        var place = 0
        /// When it arrived in the list.
        var arrived: Int64 = 0
        /// Redis has forgotten it, and no living worker held it.
        var isForgotten = false
        /// Redis has it again, although a worker that no longer lives had pushed it: no worker can count the repeated push.
        var uncounted = 0
        /// The workers that ended while they held it, and that have not told Redis all repeated pushes, or whose jobs in flight
        /// Redis has lost.
        var lostWith: Set<Int> = []
    }

    /// The states of a token or channel.
    struct Scope {
        var jobs: [Int] = []
        /// The place of the newest that APNs has accepted; -1 for none.
        var newest = -1
        /// The states that APNs has accepted, with their times.
        var accepted: [(time: Int64, job: Int)] = []
    }

    private let world: World
    private(set) var jobs: [Job] = []
    private(set) var scopes: [Int: Scope] = [:]
    /// By the number of the worker in its name.
    private var faulty: Set<Int> = []
    /// By the number of a worker: the jobs that it had pushed and that Redis has again. The worker does not know this yet.
    private var unnoticed: [Int: Set<Int>] = [:]
    /// Possible duplicates that a worker had not told Redis when it ended, by its number.
    private var untold: [Int: Int] = [:]
    private(set) var sums = Sums()
    /// Redis has lost data: it may have jobs again that were sent, and not have others.
    var isForgetful = false

    struct Sums {
        var jobs = 0
        var requests = 0
        var accepted = 0
        var dead = 0
        /// Acceptances beyond one for each job.
        var extra = 0
        var forgotten = 0
        var superseded = 0

        static func += (sums: inout Sums, other: Sums) {
            sums.jobs += other.jobs
            sums.requests += other.requests
            sums.accepted += other.accepted
            sums.dead += other.dead
            sums.extra += other.extra
            sums.forgotten += other.forgotten
            sums.superseded += other.superseded
        }
    }

    init(_ world: World) { self.world = world }

    /// - Parameter renames: how often the worker has taken a new name.
    static func name(ofWorker number: Int, renames: Int = 0) -> String {
        "w\(number)" + String(repeating: "'", count: renames)
    }

    static func worker(named name: String) -> Int? { Int(name.dropFirst().prefix { $0 != "'" }) }

    // MARK: Jobs

    /// - Parameter scope: of a state; it is also its device token or channel.
    func produce(mayExpire: Bool, app: Int, scope: Int? = nil) -> Int {
        jobs.append(Job(mayExpire: mayExpire, app: app, scope: scope))
        sums.jobs += 1
        return jobs.count - 1
    }

    /// Jobs have arrived in the list.
    func arrived(_ numbers: Range<Int>) {
        for number in numbers {
            jobs[number].arrived = world.time
            guard let scope = jobs[number].scope else { continue }
            jobs[number].place = scopes[scope, default: Scope()].jobs.count
            scopes[scope, default: Scope()].jobs.append(number)
        }
    }

    /// The device token or channel of a scope.
    static func scope(_ number: Int, app: Int) -> Int { 90_000_000 + 1000 * app + number }

    /// The device token of a job: its number.
    static func token(_ job: Int) -> String {
        let digits = String(job)
        return String(repeating: "0", count: tokenLength - digits.count) + digits
    }

    private static let tokenLength = 8

    static func job(_ token: some Sequence<UInt8>) -> Int { token.reduce(0) { $0 * 10 + Int($1 &- 48) } }

    /// The numbers of the jobs with these bytes: one for each device token.
    static func jobs(in bytes: [UInt8]) -> [Int] {
        if bytes.firstRange(of: Array(#""replaces""#.utf8)) != nil {
            guard let start = bytes.firstRange(of: Array(#""identifier":"#.utf8))?.upperBound else { return [] }
            return [job(bytes[start...].prefix { (48...57).contains($0) })]
        }
        let token = CampaignToken(bytes)?.token ?? bytes
        if token.count == tokenLength, token.allSatisfy({ (48...57).contains($0) }) { return [job(token)] }
        guard let start = bytes.firstRange(of: Array(#""token"#.utf8))?.upperBound else { return [] }
        let end = bytes[start...].firstIndex { $0 == UInt8(ascii: "]") || $0 == UInt8(ascii: "d") } ?? bytes.endIndex
        return bytes[start..<end].split { !(48...57).contains($0) }.filter { $0.count == tokenLength }.map { job($0) }
    }

    /// Whether a job hands over an audience, of which Redis has the tokens.
    private static func beginsCampaign(_ job: [UInt8]) -> Bool { job.firstRange(of: Array(#""tokens_from""#.utf8)) != nil }

    // MARK: Attempts

    func sent(_ job: Int, by worker: Int) -> Attempt {
        let attempt = Attempt(job: job, worker: worker)
        sums.requests += 1
        if jobs.indices.contains(job) { jobs[job].attempts.append(attempt) } else { world.fail("unknown job \(job)") }
        return attempt
    }

    func accepted(_ attempt: Attempt) {
        if attempt.isAccepted { world.fail("job \(attempt.job): one request was processed twice") }
        attempt.isAccepted = true
        sums.accepted += 1
        guard let scope = jobs[attempt.job].scope else { return }
        let (place, newest) = (jobs[attempt.job].place, scopes[scope]?.newest ?? -1)
        // What a broken connection has left behind is not in the hands of the daemon.
        if place < newest && !attempt.isDoubtful && !isForgetful {
            world.fail("state \(place) of scope \(scope) was accepted after state \(newest)", job: attempt.job)
        }
        scopes[scope]?.newest = max(place, newest)
        scopes[scope]?.accepted.append((world.time, attempt.job))
    }

    func rejected(_ attempt: Attempt) { jobs[attempt.job].failures += 1 }

    func isInDoubt(_ attempt: Attempt) {
        if attempt.isDoubtful { return }
        attempt.isDoubtful = true
        jobs[attempt.job].failures += 1
    }

    // MARK: Workers

    /// Others may consider this worker dead from now on.
    func hasFault(_ worker: Int) { faulty.insert(worker) }
    func isFaulty(_ worker: Int) -> Bool { faulty.contains(worker) }

    /// - Parameters:
    ///   - untold: possible duplicates that Redis has not confirmed.
    ///   - isBehind: whether Redis has lost settlements, which the worker does not know.
    func crashed(_ worker: Int, untold: Int, isBehind: Bool) {
        hasFault(worker)
        self.untold[worker] = untold
        if isBehind { for job in unnoticed[worker] ?? [] { jobs[job].uncounted += 1 } }
    }

    /// A worker has lost these jobs to others.
    func reaped(_ held: [[UInt8]], from name: String) {
        guard let worker = Ledger.worker(named: name) else { return world.fail("unknown worker \(name)") }
        if held.isEmpty { return }
        if !faulty.contains(worker) && !isForgetful {
            return world.fail("worker \(worker) had no fault, and lost \(held.count) jobs to another")
        }
        for bytes in held {
            let jobs = Ledger.jobs(in: bytes)
            if jobs.isEmpty && !Ledger.beginsCampaign(bytes) {
                world.fail("an unknown job in flight: \(String(decoding: bytes, as: UTF8.self))")
            }
            for job in jobs where self.jobs.indices.contains(job) {
                self.jobs[job].recoveries += 1
                // The takeover counts each job once, and the worker had not told how often it has repeated the push.
                if untold[worker, default: 0] > 0 { lose(job, with: worker) }
                for attempt in self.jobs[job].attempts where attempt.worker == worker { isInDoubt(attempt) }
            }
        }
    }

    /// Neither Redis nor a living worker has the job.
    func forget(_ job: Int) { jobs[job].isForgotten = true }

    /// This worker, which has ended, had the job in flight, and Redis does not know that, or not all of its repeated pushes. The
    /// pushes that the worker has repeated are counted only if it reported them to Redis.
    func lose(_ job: Int, with worker: Int) { jobs[job].lostWith.insert(worker) }

    /// The worker has noticed all settlements that Redis has lost.
    func hasNoticed(_ worker: Int) { unnoticed[worker] = nil }

    /// Redis has these jobs again. Only these workers live, and remember what they have settled.
    func returned(_ jobs: Set<Int>, countedBy workers: Set<Int>) {
        for job in jobs where self.jobs.indices.contains(job) {
            let accepted = self.jobs[job].attempts.filter { $0.isAccepted }
            if accepted.isEmpty { continue }
            if let owner = accepted.first(where: { workers.contains($0.worker) }) {
                unnoticed[owner.worker, default: []].insert(job)
            } else {
                self.jobs[job].uncounted += 1
            }
        }
    }

    // MARK: Checks

    func deadLetter(_ letter: DeadLetter) {
        // Redis has lost the tokens.
        if isForgetful && Ledger.beginsCampaign(letter.job) { return }
        sums.dead += 1
        let numbers = Ledger.jobs(in: letter.job)
        if numbers.isEmpty { world.fail("a dead letter of an unknown job: \(String(decoding: letter.job, as: UTF8.self))") }
        for number in numbers where jobs.indices.contains(number) {
            jobs[number].deadLetters += 1
            if !isJustified(letter.reason, jobs[number]) {
                world.fail("no reason for the dead letter \(letter.reason)", job: number)
            }
        }
    }

    private func isJustified(_ reason: String, _ job: Job) -> Bool {
        switch reason {
        case "Expired": job.mayExpire
        // At three crashes with others, and at one alone.
        case "crash_suspect": job.recoveries > 3
        default: job.failures > 0
        }
    }

    /// Each job has one end, except where a fault hid the first.
    func check(maybeDuplicates: Int64) {
        for (number, job) in jobs.enumerated() { check(job, number) }
        let uncounted = jobs.reduce(0) { $0 + $1.uncounted } + untold.reduce(0) { $0 + min($1.value, repeated(lostWith: $1.key)) }
        if Int64(sums.extra - uncounted) > maybeDuplicates {
            let job = jobs.firstIndex { $0.attempts.count { $0.isAccepted } > 1 }
            let text = "\(sums.extra) extra acceptances, \(uncounted) excused, but maybe_duplicate is \(maybeDuplicates)"
            world.fail(text, job: job)
        }
    }

    /// States that were accepted by an attempt whose response was lost may end as superseded.
    var doubtfulStates: Int {
        jobs.count { $0.scope != nil && $0.attempts.contains { $0.isAccepted && $0.isDoubtful } }
    }

    /// The pushes that this worker has repeated, of the jobs that were lost with it.
    private func repeated(lostWith worker: Int) -> Int {
        jobs.reduce(0) { sum, job in
            guard job.lostWith.contains(worker) else { return sum }
            return sum + max(0, job.attempts.count { $0.isAccepted && $0.worker == worker } - 1)
        }
    }

    private func check(_ job: Job, _ number: Int) {
        let accepted = job.attempts.count { $0.isAccepted }
        let certain = job.attempts.count { $0.isAccepted && !$0.isDoubtful }
        if accepted + job.deadLetters == 0 {
            // A newer state has taken its place.
            if let scope = job.scope, job.place + 1 < scopes[scope]?.jobs.count ?? 0 {
                sums.superseded += 1
            } else if job.isForgotten {
                sums.forgotten += 1
            } else {
                world.fail("job \(number) is lost", job: number)
            }
        }
        if certain + job.deadLetters > 1 && !isForgetful {
            let dead = job.deadLetters == 0 ? "" : " and is dead \(job.deadLetters) times"
            world.fail("job \(number) was accepted \(accepted) times\(dead), and no fault excuses that", job: number)
        }
        sums.extra += max(0, accepted - 1)
    }
}
