import Clocks
import RedisQueue
import Sockets
import Threads

/// Reads the lists' state for whoever looks, at most once a second, on a thread of its own: a Redis that hangs keeps nobody
/// waiting but this thread.
final class RedisReadings: Sendable {
    /// A reading serves everybody for so long.
    static let lifetime = Duration.seconds(1)
    /// For a dial, and for an answer.
    private static let timeout = Duration.seconds(1)

    typealias Receiver = @Sendable (RedisReading) -> Void

    private struct State {
        var last: RedisReading?
        var waiting: [Receiver] = []
        var settings: QueueSettings
        var tls: TLSContext?
        var isStopped = false
    }

    /// Only the one caller that stopped it touches the thread.
    private final class Handle: @unchecked Sendable {
        var thread: OwnedThread?
    }

    private let state: Locked<State>
    private let wakeUp = WakeUp()
    private let finished = WakeUp()
    private let handle = Handle()

    init(_ settings: Settings, tls: TLSContext?) throws(ThreadError) {
        state = Locked(State(settings: Self.queue(settings), tls: tls))
        let lists = settings.lists
        handle.thread = try OwnedThread(name: "metrics redis") { [self] in run(lists) }
    }

    private static func queue(_ settings: Settings) -> QueueSettings {
        var queue = settings.queues[0]
        queue.timeout = timeout
        return queue
    }

    /// Who we are, what to trust and what to show, from the next connection on.
    func adopt(_ settings: Settings, tls: TLSContext?) {
        let queue = Self.queue(settings)
        state.withLock { ($0.settings, $0.tls) = (queue, tls) }
    }

    /// Hands a reading that is not older than a second to `receiver`, at once or later, from any thread.
    func read(_ receiver: @escaping Receiver) {
        let known: RedisReading? = state.withLock { state in
            if let last = state.last, .now - last.taken < Self.lifetime { return last }
            state.waiting.append(receiver)
            return nil
        }
        if let known { receiver(known) } else { wakeUp.ring() }
    }

    /// The last reading, whatever its age.
    var latest: RedisReading? { state.withLock { $0.last } }

    /// Ends the thread. One that waits for Redis just now is left to end with the process.
    func stop() {
        let wasRunning = state.withLock { state in
            defer { state.isStopped = true }
            return !state.isStopped
        }
        guard wasRunning else { return }
        wakeUp.ring()
        var poller = Poller()
        let place = poller.add(finished.descriptor, for: .read)
        let deadline = Instant.now + .milliseconds(100)
        repeat { poller.wait(until: deadline) } while !poller.readiness(at: place).contains(.read) && .now < deadline
        if poller.readiness(at: place).contains(.read), let thread = handle.thread.take() { thread.join() }
    }

    // MARK: The thread

    private func run(_ lists: [String]) {
        var source = RedisSource(lists)
        var poller = Poller()
        poller.add(wakeUp.descriptor, for: .read)
        while true {
            poller.wait(until: nil)
            wakeUp.listen()
            let (isStopped, isWanted, settings, tls) = state.withLock { ($0.isStopped, !$0.waiting.isEmpty, $0.settings, $0.tls) }
            if isStopped { break }
            if !isWanted { continue }
            var reading = source.read(settings, tls)
            let receivers = state.withLock { state in
                reading.measure(since: state.last)
                state.last = reading
                defer { state.waiting.removeAll() }
                // Whoever stopped this has closed their connections, too.
                return state.isStopped ? [] : state.waiting
            }
            for receiver in receivers { receiver(reading) }
        }
        finished.ring()
    }
}

/// A connection that is kept between readings, for as long as Redis keeps it.
private struct RedisSource: ~Copyable {
    private let lists: [String]
    private var client: RedisClient?

    init(_ lists: [String]) { self.lists = lists }

    mutating func read(_ settings: QueueSettings, _ tls: TLSContext?) -> RedisReading {
        // One that lay idle may have been closed long ago: that alone is no fault.
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
