import Harness
@testable import Platform

/// Everything that decides the order of a run: the events to come, the clock and the random numbers. Equal seeds give equal runs.
final class World {
    let seed: UInt64
    let clock = SimulatedClock()
    private var events = EventHeap()
    private var generator: SeededGenerator
    /// The reason why the run failed.
    private(set) var failure: String?
    /// The job that the failure concerns.
    private(set) var failedJob: Int?
    /// The job whose steps are kept, and these steps.
    private let watched: Int?
    private(set) var story: [String] = []
    /// FNV-1a over all steps and their times.
    private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    private(set) var steps = 0
    private var trace: [Entry] = []

    private struct Entry {
        var time: Int64
        var step: Step
        var first: Int
        var second: Int
    }

    private static let traceLength = 400
    /// A run with more steps works without an end.
    private let mostSteps: Int

    init(seed: UInt64, watching job: Int? = nil, mostSteps: Int = 3_000_000) {
        (self.seed, self.mostSteps) = (seed, mostSteps)
        watched = job
        generator = SeededGenerator(seed: seed)
        trace.reserveCapacity(World.traceLength)
    }

    var now: Instant { clock.now }
    var time: Int64 { clock.time }

    // MARK: Events

    func at(_ time: Int64, _ body: @escaping () -> Void) { events.add(at: max(time, clock.time), body) }
    func after(_ pause: Int64, _ body: @escaping () -> Void) { at(clock.time + pause, body) }

    /// Runs until a time, a failure, or until `isOver` after an event.
    func run(until end: Int64, isOver: () -> Bool = { false }) {
        while failure == nil, let next = events.next, next <= end {
            guard let event = events.popFirst() else { return }
            if event.time > clock.time { clock.time = event.time }
            event.body()
            if isOver() { return }
        }
        if failure == nil && clock.time < end { clock.time = end }
    }

    /// Frees the events to come, which refer to everything in the run.
    func forget() { events = EventHeap() }

    // MARK: Random numbers

    func chance(_ probability: Double) -> Bool { probability > 0 && fraction() < probability }
    func fraction() -> Double { Double(generator.next() >> 11) / 9_007_199_254_740_992 }
    func number(in range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
    func time(in range: ClosedRange<Int64>) -> Int64 { Int64.random(in: range, using: &generator) }
    func bits() -> UInt64 { generator.next() }

    /// A time that is short for most calls, and up to `most` for few.
    func skewed(upTo most: Int64) -> Int64 {
        let fraction = fraction()
        return Int64(Double(most) * fraction * fraction * fraction)
    }

    // MARK: The record

    func note(_ step: Step, _ first: Int, _ second: Int = 0) {
        steps += 1
        if steps > mostSteps { fail("more than \(mostSteps) steps") }
        mix(UInt64(bitPattern: clock.time) << 8 | UInt64(step.rawValue))
        mix(UInt64(truncatingIfNeeded: first) << 32 ^ UInt64(truncatingIfNeeded: second))
        let entry = Entry(time: clock.time, step: step, first: first, second: second)
        if let watched, step.concerns(watched, first, second) { story.append(World.line(entry)) }
        if trace.count < World.traceLength { trace.append(entry) } else { trace[steps % World.traceLength] = entry }
    }

    func mix(_ value: UInt64) { digest = (digest ^ value) &* 0x100_0000_01b3 }

    func fail(_ reason: String, job: Int? = nil) { if failure == nil { (failure, failedJob) = (reason, job) } }

    /// The last steps, the oldest first.
    func lastSteps(_ count: Int) -> [String] {
        let start = trace.count < World.traceLength ? 0 : (steps + 1) % World.traceLength
        let ordered = trace.indices.map { trace[(start + $0) % trace.count] }
        return ordered.suffix(count).map { World.line($0) }
    }

    private static func line(_ entry: Entry) -> String {
        "\(Double(entry.time / 1000) / 1e6) s: \(entry.step) \(entry.first) \(entry.second)"
    }
}

extension Int64 {
    static let microsecond: Int64 = 1000
    static let millisecond: Int64 = 1_000_000
    static let second: Int64 = 1_000_000_000
}

/// The events to come. The earliest is taken first; of events at one time, the one that was added first.
struct EventHeap {
    private struct Entry {
        var time: Int64
        var number: UInt64
        var body: () -> Void

        func isBefore(_ other: Entry) -> Bool { time != other.time ? time < other.time : number < other.number }
    }

    private var entries: ContiguousArray<Entry> = []
    private var added: UInt64 = 0

    var next: Int64? { entries.first?.time }

    mutating func add(at time: Int64, _ body: @escaping () -> Void) {
        added += 1
        let entry = Entry(time: time, number: added, body: body)
        var place = entries.count
        entries.append(entry)
        while place > 0, entry.isBefore(entries[(place - 1) / 2]) {
            entries[place] = entries[(place - 1) / 2]
            place = (place - 1) / 2
        }
        entries[place] = entry
    }

    mutating func popFirst() -> (time: Int64, body: () -> Void)? {
        guard let first = entries.first, let last = entries.popLast() else { return nil }
        let count = entries.count
        if count > 0 {
            var place = 0
            while true {
                var child = 2 * place + 1
                if child >= count { break }
                if child + 1 < count, entries[child + 1].isBefore(entries[child]) { child += 1 }
                if !entries[child].isBefore(last) { break }
                entries[place] = entries[child]
                place = child
            }
            entries[place] = last
        }
        return (first.time, first.body)
    }
}

/// One step of a run, as the trace shows it. The two numbers beside it are explained for each kind.
enum Step: UInt8 {
    /// The number of jobs, the first of them.
    case produced
    /// The worker, the kind of the call.
    case executed
    /// The worker, the number of replies.
    case replied
    /// A blocked wait ends: the worker, 1 if there is a job.
    case waitEnded
    /// The worker, the number of jobs that it holds.
    case turn
    /// The worker, the session.
    case sessionTurn
    /// The worker, the number of sessions.
    case poolTurn
    /// The worker, the job: a request leaves.
    case sent
    /// The job, the status.
    case processed
    /// The session, the job: a response arrives.
    case answered
    /// The worker, the job.
    case outcome
    /// The worker, the session.
    case opened
    case dialFailed
    case closed
    /// The session, the last stream.
    case goAway
    /// The worker, its generation of the settings.
    case reloaded
    case started
    case stopped
    /// The kind of the fault, the worker.
    case fault
    /// The number of jobs, the worker that is reaped.
    case reaped
    /// The app.
    case disturbed

    /// Whether the step belongs to the story of a job: it names the job, or may have changed any job.
    func concerns(_ job: Int, _ first: Int, _ second: Int) -> Bool {
        switch self {
        case .produced: (second..<second + first).contains(job)
        case .sent, .answered: second == job
        case .processed: first == job
        case .fault, .started, .stopped, .reaped, .disturbed: true
        default: false
        }
    }
}

/// The turns of one simulated thread: each at the earliest time for which it was asked.
final class Ticker {
    private let world: World
    private var due = Int64.max
    private var token = 0
    /// No turn before this time: the process is stopped, or the last turn takes until then.
    var notBefore: Int64 = 0
    private var body: () -> Void = {}

    init(_ world: World) { self.world = world }

    func onTurn(_ body: @escaping () -> Void) { self.body = body }

    func wake(at time: Int64) {
        let time = max(time, world.time, notBefore)
        if time >= due { return }
        due = time
        token += 1
        let own = token
        world.at(time) { [self] in if own == token { fire() } }
    }

    func wake(at instant: Instant?) {
        guard let instant else { return }
        let distance = instant - world.now
        // Rounded up: a turn before its deadline would find nothing to do.
        let wait = distance <= .zero ? 0 : Int64(clamping: (distance.attoseconds + 999_999_999) / 1_000_000_000)
        wake(at: world.time + min(wait, 1000 * .second))
    }

    func stop() {
        due = .max
        token += 1
        body = {}
    }

    private func fire() {
        due = .max
        if world.time < notBefore { return wake(at: notBefore) }
        body()
    }
}

/// The time of a run, which only its events move.
final class SimulatedClock: Sendable {
    private let elapsed = Locked<Int64>(0)

    /// Nanoseconds since the beginning.
    var time: Int64 {
        get { elapsed.withLock { $0 } }
        set { elapsed.withLock { $0 = newValue } }
    }

    var now: Instant { SimulatedClock.beginning + .nanoseconds(time) }

    /// The same in each process, and later than the true time.
    private static let beginning = Instant(attoseconds: 4_000_000_000 * 1_000_000_000_000_000_000)
    /// Unix seconds of the beginning.
    private static let date: Int64 = 1_800_000_000

    var microsecondsSince1970: Int64 { SimulatedClock.date * 1_000_000 + time / 1000 }
    var wallClock: WallClock { WallClock(seconds: Double(microsecondsSince1970) / 1e6) }
}
