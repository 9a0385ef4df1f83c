import Harness
import Platform
import RedisQueue

/// A client on its own thread that only calls BLPOP: the reference for the idle latency.
final class ListPopper {
    static let list = "reference"
    private static let stopElement = "stop"

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
            while let reply = try? client.command(["BLPOP", ListPopper.list, "0"]),
                reply.items?.last?.text != ListPopper.stopElement
            {
                arrivals.send(.now)
            }
        }
    }

    /// Returns the time from before `push`, which pushes one element, until it arrives.
    func time(_ push: () throws -> Void) throws -> Duration {
        let start = Instant.now
        try push()
        var poller = Poller()
        poller.add(arrivals.wakeDescriptor, for: .read)
        poller.wait(until: start + .seconds(10))
        guard let arrival = arrivals.drain().first else { throw LabError(description: "BLPOP got no reply") }
        return arrival - start
    }

    func stop() {
        guard let thread = thread.take(), var client = try? RedisClient(settings: settings) else { return }
        _ = try? client.command(["RPUSH", ListPopper.list, ListPopper.stopElement])
        thread.join()
    }
}
