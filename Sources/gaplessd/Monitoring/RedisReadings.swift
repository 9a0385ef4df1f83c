import Platform
import RedisQueue

/// Readings of the state of the lists: every second for an observer, otherwise on request and at most once a second. `duty`
/// reads.
final class RedisReadings: Sendable {
    /// A reading serves all requests for this long.
    static let lifetime = Duration.seconds(1)
    /// After a request for dead letters, readings contain them for this long.
    private static let interest = Duration.seconds(10)

    typealias Receiver = @Sendable (RedisReading) -> Void

    private struct State {
        var last: RedisReading?
        var waiting: [Receiver] = []
        var observer: Receiver?
        /// The time of the last request for dead letters.
        var lettersWanted: Instant?
    }

    private let state = Locked(State())
    private let lists: [String]
    private let wakeUp: WakeUp

    init(_ lists: [String], _ wakeUp: WakeUp) { (self.lists, self.wakeUp) = (lists, wakeUp) }

    /// Hands a reading that is at most one second old to `receiver`, at once or later, from any thread.
    func read(withLetters: Bool = false, _ receiver: @escaping Receiver) {
        let known: RedisReading? = state.withLock { state in
            if withLetters { state.lettersWanted = .now }
            if let last = state.last, .now - last.taken < Self.lifetime, !withLetters || last.hasLetters { return last }
            state.waiting.append(receiver)
            return nil
        }
        if let known { receiver(known) } else { wakeUp.ring() }
    }

    /// - Parameter observer: receives every reading from now on, one each second, with the ages of the lists. `nil` ends this.
    func observe(_ observer: Receiver?) {
        state.withLock { $0.observer = observer }
        wakeUp.ring()
    }

    private func finish(_ taken: RedisReading) {
        var reading = taken
        let (observer, receivers) = state.withLock { state in
            reading.measure(since: state.last)
            state.last = reading
            defer { state.waiting = [] }
            return (state.observer, state.waiting)
        }
        observer?(reading)
        for receiver in receivers { receiver(reading) }
    }

    var duty: any SideDuty { Duty(self, lists) }

    /// Reads the lists, and keeps the knowledge from earlier readings.
    private struct Duty: SideDuty {
        private enum Step {
            case status(list: Int)
            case tail(list: Int)
            case letters(list: Int)
        }

        private let readings: RedisReadings
        private let lists: [Keys]
        /// Of the present reading.
        private var steps: [Step] = []
        private var reading = RedisReading(taken: .now)
        private var next = Instant.now
        /// For each list; empty if nothing asks for its age.
        private var flows: [ListFlow] = []
        /// Of the list whose dead letters are being read.
        private var letterReader: DeadLetterSummary.Reader?
        private var letters: [Int: (mark: [Int64], summary: DeadLetterSummary, at: Instant)] = [:]
        /// Dead letters whose reasons are counted at once, and those that are shown. Later ones are added to them.
        private static let lettersRead = (counted: 20_000, shown: 8)

        /// The least time between two looks at the dead letters, and between two counts of many.
        private static let lettersPauses = (usual: Duration.seconds(3), many: Duration.seconds(10), count: 2000)

        init(_ readings: RedisReadings, _ lists: [String]) { (self.readings, self.lists) = (readings, lists.map(Keys.init)) }

        var wanted: WakeUp? { nil }

        func due(isWanted: Bool, now: Instant) -> Instant? {
            guard steps.isEmpty else { return now }
            let (isRequested, isObserved) = readings.state.withLock { (!$0.waiting.isEmpty, $0.observer != nil) }
            return isRequested ? now : isObserved ? next : nil
        }

        mutating func step(_ client: inout RedisClient, connection: Int) throws(RedisError) {
            if steps.isEmpty { begin() }
            switch steps[0] {
            case .status(let list):
                reading.lists.append(
                    RedisReading.List(name: lists[list].list, status: try QueueStatus.read(&client, lists[list])))
            case .tail(let list): try look(at: list, &client)
            case .letters(let list): if try readLetters(of: list, &client) { return }
            }
            steps.removeFirst()
            guard steps.isEmpty else { return }
            reading.taken = .now
            readings.finish(reading)
        }

        private mutating func begin() {
            let (isObserved, wantsLetters) = readings.state.withLock { state in
                (state.observer != nil, state.lettersWanted.map { .now - $0 < RedisReadings.interest } ?? false)
            }
            if flows.isEmpty == isObserved { flows = isObserved ? lists.map { _ in ListFlow() } : [] }
            reading = RedisReading(taken: .now)
            next = .now + RedisReadings.lifetime
            for list in lists.indices {
                steps.append(.status(list: list))
                if isObserved { steps.append(.tail(list: list)) }
                if wantsLetters { steps.append(.letters(list: list)) }
            }
        }

        private mutating func look(at list: Int, _ client: inout RedisClient) throws(RedisError) {
            let status = reading.lists[list].status
            var answer: TailProbe.Answer?
            do throws(RedisError) {
                answer = try TailProbe(lists[list]).ask(flows[list].question, &client)
            } catch {
                // Without the right to LPOS the age is unknown.
                guard error.isFromServer else { throw error }
            }
            flows[list].looked(status, answer, at: .now)
            (reading.lists[list].age, reading.lists[list].drain) = (flows[list].age, flows[list].drain(of: status.backlog))
        }

        /// Makes one call. Returns whether another one is needed.
        private mutating func readLetters(of list: Int, _ client: inout RedisClient) throws(RedisError) -> Bool {
            let status = reading.lists[list].status
            let mark = status.deadLetterMark
            let new = letters[list].flatMap { Self.growth(from: $0.mark, to: mark) }
            let pauses = Self.lettersPauses
            let pause = new == nil && status.dead > pauses.count ? pauses.many : pauses.usual
            if letterReader == nil, let known = letters[list], known.mark == mark || .now - known.at < pause {
                reading.lists[list].letters = known.summary
                return false
            }
            var reader =
                letterReader
                ?? DeadLetterSummary.Reader(
                    status.dead, counted: Self.lettersRead.counted, shown: Self.lettersRead.shown, lists[list],
                    continuing: letters[list].flatMap { known in new.map { (known.summary, $0) } })
            let isUnfinished = try reader.read(&client)
            letterReader = isUnfinished ? reader : nil
            if !isUnfinished {
                letters[list] = (mark, reader.summary, .now)
                reading.lists[list].letters = reader.summary
            }
            return isUnfinished
        }

        /// Returns the number of dead letters that were added, if none was removed.
        private static func growth(from old: [Int64], to new: [Int64]) -> Int? {
            let changes = zip(old, new).map { $1 &- $0 }
            guard changes.count == 4, changes[0] >= 0, changes[0] == changes[1] &+ changes[2], changes[3] == 0 else { return nil }
            return Int(changes[0])
        }

        mutating func failed(_ error: RedisError) {
            (steps, letterReader) = ([], nil)
            next = .now + RedisReadings.lifetime
            readings.finish(RedisReading(taken: .now, fault: error.description))
        }
    }
}

/// The state of all lists in Redis at about one moment, or the reason why it is unknown.
struct RedisReading: Sendable {
    struct List: Sendable {
        var name: String
        var status: QueueStatus
        /// Pushes per second of all workers together since the previous reading.
        var sentPerSecond: Double?
        /// The age of the job that is claimed next; `nil` if it is unknown.
        var age: Duration?
        /// Seconds until the list is empty at the present rate; `nil` if it is unknown.
        var drain: Double?
        /// Read for the page only.
        var letters: DeadLetterSummary?
    }

    var taken: Instant
    var lists: [List] = []
    /// The reason why there are no lists.
    var fault: String?

    var hasLetters: Bool { fault != nil || lists.allSatisfy { $0.letters != nil } }

    /// Sets the rates, which need two readings.
    mutating func measure(since before: RedisReading?) {
        guard let before else { return }
        let seconds = (taken - before.taken) / .seconds(1)
        guard seconds > 0, before.lists.count == lists.count else { return }
        for index in lists.indices {
            // As doubles: any program can write any number into the counter.
            let sent = Double(lists[index].status.counters[.sent, default: 0])
            lists[index].sentPerSecond = max(0, sent - Double(before.lists[index].status.counters[.sent, default: 0])) / seconds
        }
    }
}
