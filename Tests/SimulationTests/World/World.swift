import Harness
import Platform

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
    private static let mostSteps = 3_000_000

    init(seed: UInt64, watching job: Int? = nil) {
        self.seed = seed
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
        if steps > World.mostSteps { fail("more than \(World.mostSteps) steps") }
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
