import Platform
import RedisQueue

/// Reads the state of the lists on a thread of its own: every second for an observer, otherwise on request and at most once a
/// second. A Redis that hangs blocks only this thread.
final class RedisReadings: Sendable {
    /// A reading serves all requests for this long.
    static let lifetime = Duration.seconds(1)
    /// The limit of a dial and of a reply.
    private static let timeout = Duration.seconds(1)
    /// The longest wait of `stop` for a thread that is waiting for Redis.
    private static let closingTimeout = Duration.milliseconds(100)
    /// After a request for dead letters, readings contain them for this long.
    private static let interest = Duration.seconds(10)

    typealias Receiver = @Sendable (RedisReading) -> Void

    private struct State {
        var last: RedisReading?
        var waiting: [Receiver] = []
        var settings: QueueSettings
        var tls: TLSContext?
        var isStopped = false
        /// The time of the last request for dead letters.
        var lettersWanted: Instant?

        var wantsLetters: Bool { lettersWanted.map { .now - $0 < interest } ?? false }
    }

    private let state: Locked<State>
    private let wakeUp: WakeUp
    private let thread: JoinOnce

    /// - Parameter observer: receives every reading, on the thread of the readings.
    init(_ settings: Settings, tls: TLSContext?, observer: Receiver? = nil) throws(ThreadError) {
        let name = "metrics redis"
        let queue = settings.connection(timeout: Self.timeout)
        let (state, wakeUp) = (Locked(State(settings: queue, tls: tls)), try WakeUp(thread: name))
        let lists = settings.lists
        thread = try JoinOnce(name: name) { Self.run(lists, state, wakeUp, observer) }
        (self.state, self.wakeUp) = (state, wakeUp)
    }

    /// Uses other credentials and addresses from the next connection on.
    func adopt(_ settings: Settings, tls: TLSContext?) {
        let queue = settings.connection(timeout: Self.timeout)
        state.withLock { ($0.settings, $0.tls) = (queue, tls) }
    }

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

    /// Ends the thread. If it is waiting for Redis, it ends with the process.
    func stop() {
        state.withLock { $0.isStopped = true }
        wakeUp.ring()
        thread.join(atMost: Self.closingTimeout)
    }

    // MARK: The thread

    private static func run(_ lists: [String], _ state: Locked<State>, _ wakeUp: WakeUp, _ observer: Receiver?) {
        var source = Source(lists, looksAtTails: observer != nil)
        var client = KeptClient()
        var poller = Poller()
        poller.add(wakeUp.descriptor, for: .read)
        var next: Instant? = observer == nil ? nil : .now
        while true {
            poller.wait(until: next)
            wakeUp.listen()
            let (isStopped, isWanted, settings, tls) = state.withLock { ($0.isStopped, !$0.waiting.isEmpty, $0.settings, $0.tls) }
            if isStopped { return }
            source.readsLetters = state.withLock { $0.wantsLetters }
            let isDue = next.map { $0 <= .now } ?? false
            if !isWanted && !isDue { continue }
            if observer != nil { next = .now + lifetime }
            var reading: RedisReading
            do throws(RedisError) {
                reading = try client.run(settings, tls) { client throws(RedisError) in try source.read(&client) }
            } catch {
                reading = RedisReading(taken: .now, fault: error.description)
            }
            let receivers = state.withLock { state in
                reading.measure(since: state.last)
                state.last = reading
                defer { state.waiting.removeAll() }
                // After `stop` the connections of the receivers are closed.
                return state.isStopped ? [] : state.waiting
            }
            observer?(reading)
            for receiver in receivers { receiver(reading) }
        }
    }

    /// The lists, and the knowledge from earlier readings.
    private struct Source {
        private let lists: [String]
        /// For each list; empty if nothing asks for its age.
        private var flows: [ListFlow]
        /// Whether the readings contain dead letters.
        var readsLetters = false
        private var letters: [String: (mark: [Int64], summary: DeadLetterSummary, at: Instant)] = [:]
        /// Dead letters whose reasons are counted, those that are shown, and the least time between two looks at them.
        private static let lettersRead = (counted: 2000, shown: 8, pause: Duration.seconds(3))

        init(_ lists: [String], looksAtTails: Bool) {
            self.lists = lists
            flows = looksAtTails ? lists.map { _ in ListFlow() } : []
        }

        mutating func read(_ client: inout RedisClient) throws(RedisError) -> RedisReading {
            var reading = RedisReading(taken: .now)
            for (index, name) in lists.enumerated() {
                var list = RedisReading.List(name: name, status: try QueueStatus.read(&client, Keys(list: name)))
                if flows.indices.contains(index) { try look(at: index, of: &list, &client) }
                if readsLetters { list.letters = try summary(of: list, &client) }
                reading.lists.append(list)
            }
            reading.taken = .now
            return reading
        }

        private mutating func summary(
            of list: RedisReading.List, _ client: inout RedisClient
        ) throws(RedisError) -> DeadLetterSummary {
            let mark = list.status.deadLetterMark
            if let known = letters[list.name], known.mark == mark || .now - known.at < Self.lettersRead.pause {
                return known.summary
            }
            let (counted, shown) = (Self.lettersRead.counted, Self.lettersRead.shown)
            let summary = try DeadLetterSummary(
                list.status.dead, counted: counted, shown: shown, Keys(list: list.name), &client)
            letters[list.name] = (mark, summary, .now)
            return summary
        }

        private mutating func look(
            at index: Int, of list: inout RedisReading.List, _ client: inout RedisClient
        ) throws(RedisError) {
            var answer: TailProbe.Answer?
            do throws(RedisError) {
                answer = try TailProbe(Keys(list: list.name)).ask(flows[index].question, &client)
            } catch {
                // Without the right to LPOS the age is unknown.
                guard error.isFromServer else { throw error }
            }
            flows[index].looked(list.status, answer, at: .now)
            (list.age, list.drain) = (flows[index].age, flows[index].drain(of: list.status.backlog))
        }
    }
}
