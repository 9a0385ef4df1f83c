import Clocks
import Harness
import RedisQueue
import Threads

/// A client on a thread of its own that does nothing but BLPOP: the yardstick of the idle latency.
final class ListPopper {
    static let list = "yardstick"
    private static let lastWord = "stop"

    private let arrivals = Mailbox<Instant>()
    private let settings: QueueSettings
    private var thread: OwnedThread?

    init(_ redis: RedisServer) throws {
        var settings = QueueSettings(list: ListPopper.list, server: .unix(path: redis.socketPath))
        settings.timeout = .seconds(30)
        self.settings = settings
        let arrivals = arrivals
        thread = try OwnedThread(name: "popper") { [settings] in
            guard var client = try? RedisClient(settings: settings) else { return }
            while let reply = try? client.command(["BLPOP", ListPopper.list, "0"]), reply.items?.last?.text != ListPopper.lastWord
            {
                arrivals.send(.now)
            }
        }
    }

    /// From before `push`, which puts one element onto the list, until it is there.
    func time(_ push: () throws -> Void) throws -> Duration {
        let start = Instant.now
        try push()
        var poller = Poller()
        poller.add(arrivals.wakeDescriptor, for: .read)
        poller.wait(until: start + .seconds(10))
        guard let arrival = arrivals.drain().first else { throw LabError(description: "BLPOP was not answered") }
        return arrival - start
    }

    func stop() {
        guard let thread = thread.take(), var client = try? RedisClient(settings: settings) else { return }
        _ = try? client.command(["RPUSH", ListPopper.list, ListPopper.lastWord])
        thread.join()
    }
}
