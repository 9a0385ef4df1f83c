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
        /// Responses other than 200, and requests without a response.
        var failures = 0
        var deadLetters = 0
        var doubts = 0
    }

    private let world: World
    private(set) var jobs: [Job] = []
    /// By the number of the worker in its name.
    private var faulty: Set<Int> = []
    private(set) var acceptances = 0

    init(_ world: World) { self.world = world }

    static func name(ofWorker number: Int) -> String { "w\(number)" }

    // MARK: Jobs

    func produce() -> Int {
        jobs.append(Job())
        return jobs.count - 1
    }

    /// The device token of a job: its number.
    static func token(_ job: Int) -> String {
        let digits = String(job)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }

    static func job(_ token: some Sequence<UInt8>) -> Int { token.reduce(0) { $0 * 10 + Int($1 &- 48) } }

    /// The number of the job with these bytes.
    static func job(in bytes: [UInt8]) -> Int? {
        guard let start = bytes.firstRange(of: Array(#""token":"#.utf8))?.upperBound,
            let quote = bytes[start...].firstIndex(of: UInt8(ascii: "\"")), quote + 9 <= bytes.count
        else { return nil }
        return job(bytes[(quote + 1)..<(quote + 9)])
    }

    // MARK: Attempts

    func sent(_ job: Int, by worker: Int) -> Attempt {
        let attempt = Attempt(job: job, worker: worker)
        if jobs.indices.contains(job) { jobs[job].attempts.append(attempt) } else { world.fail("unknown job \(job)") }
        return attempt
    }

    func accepted(_ attempt: Attempt) {
        attempt.isAccepted = true
        acceptances += 1
    }

    func rejected(_ attempt: Attempt) { jobs[attempt.job].failures += 1 }

    func isInDoubt(_ attempt: Attempt) {
        if attempt.isDoubtful { return }
        attempt.isDoubtful = true
        jobs[attempt.job].failures += 1
        jobs[attempt.job].doubts += 1
    }

    // MARK: Workers

    /// Others may consider this worker dead from now on.
    func hasFault(_ worker: Int) { faulty.insert(worker) }
    func isFaulty(_ worker: Int) -> Bool { faulty.contains(worker) }

    /// A worker has lost these jobs to others.
    func reaped(_ held: [[UInt8]], from name: String) {
        guard let worker = Int(name.dropFirst()) else { return world.fail("unknown worker \(name)") }
        if held.isEmpty { return }
        if !faulty.contains(worker) { return world.fail("worker \(worker) had no fault, and lost \(held.count) jobs to another") }
        for bytes in held {
            guard let job = Ledger.job(in: bytes), jobs.indices.contains(job) else {
                world.fail("an unknown job in flight: \(String(decoding: bytes, as: UTF8.self))")
                continue
            }
            for attempt in jobs[job].attempts where attempt.worker == worker { isInDoubt(attempt) }
        }
    }

    // MARK: Checks

    func deadLetter(_ record: [UInt8]) {
        guard let job = Ledger.job(in: record), jobs.indices.contains(job) else {
            return world.fail("a dead letter of an unknown job: \(String(decoding: record, as: UTF8.self))")
        }
        jobs[job].deadLetters += 1
        if jobs[job].deadLetters > 1 { world.fail("job \(job) is dead twice") }
    }

    /// Each job has one end, except where a fault hid the first.
    func check(maybeDuplicates: Int64) {
        var extra = 0
        for (number, job) in jobs.enumerated() {
            let accepted = job.attempts.count { $0.isAccepted }
            let certain = job.attempts.count { $0.isAccepted && !$0.isDoubtful }
            if accepted == 0 && job.deadLetters == 0 { return world.fail("job \(number) is lost") }
            if certain + job.deadLetters > 1 {
                return world.fail(
                    "job \(number) was accepted \(accepted) times and is \(job.deadLetters == 0 ? "not " : "")dead: no fault excuses that"
                )
            }
            extra += max(0, accepted + job.deadLetters - 1)
        }
        if Int64(extra) > maybeDuplicates { world.fail("\(extra) extra ends, but maybe_duplicate is \(maybeDuplicates)") }
    }
}
