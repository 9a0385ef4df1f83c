import RedisQueue
import Sockets
import SystemTime
import Threads

/// Reads the state of the lists on request, at most once a second, on a thread of its own: a Redis that hangs blocks only this
/// thread.
final class RedisReadings: Sendable {
    /// A reading serves all requests for this long.
    static let lifetime = Duration.seconds(1)
    /// The limit of a dial and of a reply.
    private static let timeout = Duration.seconds(1)
    /// How long `stop` waits for a thread that is waiting for Redis.
    private static let closingTimeout = Duration.milliseconds(100)

    typealias Receiver = @Sendable (RedisReading) -> Void

    private struct State {
        var last: RedisReading?
        var waiting: [Receiver] = []
        var settings: QueueSettings
        var tls: TLSContext?
        var isStopped = false
    }

    private let state: Locked<State>
    private let wakeUp: WakeUp
    private let thread: JoinOnce

    init(_ settings: Settings, tls: TLSContext?) throws(ThreadError) {
        let (state, wakeUp) = (Locked(State(settings: Self.queue(settings), tls: tls)), WakeUp())
        let lists = settings.lists
        thread = try JoinOnce(name: "metrics redis") { Self.run(lists, state, wakeUp) }
        (self.state, self.wakeUp) = (state, wakeUp)
    }

    private static func queue(_ settings: Settings) -> QueueSettings {
        var queue = settings.queues[0]
        queue.timeout = timeout
        return queue
    }

    /// Uses other credentials and addresses from the next connection on.
    func adopt(_ settings: Settings, tls: TLSContext?) {
        let queue = Self.queue(settings)
        state.withLock { ($0.settings, $0.tls) = (queue, tls) }
    }

    /// Hands a reading that is at most one second old to `receiver`, at once or later, from any thread.
    func read(_ receiver: @escaping Receiver) {
        let known: RedisReading? = state.withLock { state in
            if let last = state.last, .now - last.taken < Self.lifetime { return last }
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

    private static func run(_ lists: [String], _ state: Locked<State>, _ wakeUp: WakeUp) {
        var source = Source(lists)
        var poller = Poller()
        poller.add(wakeUp.descriptor, for: .read)
        while true {
            poller.wait(until: nil)
            wakeUp.listen()
            let (isStopped, isWanted, settings, tls) = state.withLock { ($0.isStopped, !$0.waiting.isEmpty, $0.settings, $0.tls) }
            if isStopped { return }
            if !isWanted { continue }
            var reading = source.read(settings, tls)
            let receivers = state.withLock { state in
                reading.measure(since: state.last)
                state.last = reading
                defer { state.waiting.removeAll() }
                // After `stop` the connections of the receivers are closed.
                return state.isStopped ? [] : state.waiting
            }
            for receiver in receivers { receiver(reading) }
        }
    }

    /// A connection that is kept between readings until Redis closes it.
    private struct Source: ~Copyable {
        private let lists: [String]
        private var client: RedisClient?

        init(_ lists: [String]) { self.lists = lists }

        mutating func read(_ settings: QueueSettings, _ tls: TLSContext?) -> RedisReading {
            // Redis may have closed an idle connection: that alone is no error.
            if let old = client.take(), let reading = try? read(old) { return reading }
            do throws(RedisError) {
                return try read(try RedisClient(settings: settings, tls: tls))
            } catch {
                return RedisReading(taken: .now, fault: error.description)
            }
        }

        private mutating func read(_ given: consuming RedisClient) throws(RedisError) -> RedisReading {
            var client = given
            var reading = RedisReading(taken: .now)
            for list in lists {
                reading.lists.append(RedisReading.List(name: list, status: try QueueStatus.read(&client, Keys(list: list))))
            }
            reading.taken = .now
            self.client = .some(consume client)
            return reading
        }
    }
}
