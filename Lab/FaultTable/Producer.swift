import Clocks
import Harness
internal import RedisQueue
internal import Threads

/// RPUSHes jobs at a steady rate from a thread of its own, past any proxy, and keeps a ledger of what Redis said to each.
///
/// Every job has a device token of its own, `deviceToken(number)`.
final class Producer {
    /// The numbers of the jobs, by what is known of them.
    struct Books: Sendable {
        /// Redis said that it has them.
        var acknowledged: Set<Int> = []
        /// The connection broke before Redis said anything: either is fine.
        var unknown: Set<Int> = []
    }

    private struct Control: Sendable {
        var books = Books()
        var server: QueueSettings
        var next: Int
        var isOver = false
        var rounds = 0
    }

    private let control: Locked<Control>
    private var thread: OwnedThread?

    /// - Parameters:
    ///   - first: the number of the first job.
    ///   - perSecond: jobs a second, in ten pushes a second.
    init(server: QueueSettings, first: Int, perSecond: Int, job: @escaping @Sendable (Int) -> String) throws {
        let control = Locked(Control(server: server, next: first))
        self.control = control
        thread = try OwnedThread(name: "producer") {
            var due = Instant.now
            var client = Producer.connect(control)
            while !control.withLock({ $0.isOver }) {
                control.withLock { $0.rounds += 1 }
                Producer.push(max(1, perSecond / 10), job, control, &client)
                due = max(due + .milliseconds(100), .now)
                _ = waitUntil(atMost: due - .now) { control.withLock { $0.isOver } }
            }
        }
    }

    deinit { _ = stop() }

    /// Ends it; returns its ledger.
    func stop() -> Books {
        control.withLock { $0.isOver = true }
        thread.take()?.join()
        return control.withLock { $0.books }
    }

    /// Pushes to another server from now on.
    func redirect(to server: QueueSettings) { control.withLock { $0.server = server } }

    /// Its ledger so far. An answer that came before this call stands in it.
    func booksNow() -> Books {
        let round = control.withLock { $0.rounds }
        _ = waitUntil(atMost: .seconds(30)) { control.withLock { $0.rounds > round + 1 } }
        return control.withLock { $0.books }
    }

    /// How many Redis has acknowledged so far.
    var acknowledged: Int { control.withLock { $0.books.acknowledged.count } }

    private static func connect(_ control: Locked<Control>) -> RedisClient? {
        try? RedisClient(settings: control.withLock { $0.server })
    }

    private static func push(
        _ count: Int, _ job: (Int) -> String, _ control: Locked<Control>, _ client: inout RedisClient?
    ) {
        let numbers = control.withLock { control in control.next..<control.next + count }
        guard var connection = client.take() ?? connect(control) else { return }
        do throws(RedisError) {
            _ = try connection.command(["RPUSH", Stage.list] + numbers.map(job))
            control.withLock { control in
                control.books.acknowledged.formUnion(numbers)
                control.next = numbers.upperBound
            }
            client = consume connection
        } catch {
            // A refusal is certain; after anything else the same jobs must not be pushed again.
            if case .reply = error { return }
            control.withLock { control in
                control.books.unknown.formUnion(numbers)
                control.next = numbers.upperBound
            }
        }
    }
}
