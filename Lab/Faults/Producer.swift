import Harness
internal import Platform
internal import RedisQueue

/// Pushes jobs at a steady rate on its own thread, past any proxy, and records the reply of Redis to each.
///
/// Every job has its own device token, `deviceToken(number)`.
final class Producer {
    /// The numbers of the jobs, by the reply.
    struct Record: Sendable {
        /// Redis acknowledged these jobs.
        var acknowledged: Set<Int> = []
        /// The connection broke before a reply: Redis may have these jobs.
        var unknown: Set<Int> = []
    }

    private struct Control: Sendable {
        var record = Record()
        var server: QueueSettings
        var next: Int
        var isOver = false
        var rounds = 0
    }

    private let control: Locked<Control>
    private var thread: OwnedThread?

    /// - Parameters:
    ///   - first: the number of the first job.
    ///   - perSecond: jobs per second, in ten pushes per second.
    ///   - push: returns the command that pushes these jobs, in one step.
    init(
        server: QueueSettings, first: Int, perSecond: Int, push: @escaping @Sendable (Range<Int>) -> [String]
    ) throws {
        let control = Locked(Control(server: server, next: first))
        self.control = control
        thread = try OwnedThread(name: "producer") {
            var due = Instant.now
            var client = Producer.connect(control)
            while !control.withLock({ $0.isOver }) {
                control.withLock { $0.rounds += 1 }
                Producer.push(max(1, perSecond / 10), push, control, &client)
                due = max(due + .milliseconds(100), .now)
                _ = waitUntil(atMost: due - .now) { control.withLock { $0.isOver } }
            }
        }
    }

    deinit { _ = stop() }

    /// Stops the producer and returns its record.
    func stop() -> Record {
        control.withLock { $0.isOver = true }
        thread.take()?.join()
        return control.withLock { $0.record }
    }

    /// Pushes to another server from now on.
    func redirect(to server: QueueSettings) { control.withLock { $0.server = server } }

    /// Returns the record so far; it contains every reply from before this call.
    func recordNow() -> Record {
        let round = control.withLock { $0.rounds }
        _ = waitUntil(atMost: .seconds(30)) { control.withLock { $0.rounds > round + 1 } }
        return control.withLock { $0.record }
    }

    /// The number of acknowledged jobs so far.
    var acknowledged: Int { control.withLock { $0.record.acknowledged.count } }

    private static func connect(_ control: Locked<Control>) -> RedisClient? {
        try? RedisClient(settings: control.withLock { $0.server })
    }

    private static func push(
        _ count: Int, _ push: (Range<Int>) -> [String], _ control: Locked<Control>, _ client: inout RedisClient?
    ) {
        let numbers = control.withLock { control in control.next..<control.next + count }
        guard var connection = client.take() ?? connect(control) else { return }
        do throws(RedisError) {
            _ = try connection.command(push(numbers))
            control.withLock { control in
                control.record.acknowledged.formUnion(numbers)
                control.next = numbers.upperBound
            }
            client = consume connection
        } catch {
            // After an error reply the jobs were not pushed; after any other error they must not be pushed again.
            if case .reply = error { return }
            control.withLock { control in
                control.record.unknown.formUnion(numbers)
                control.next = numbers.upperBound
            }
        }
    }
}
