@testable import RedisQueue

/// The side of the server of one connection.
final class RedisPeer {
    let worker: Int
    private let world: World
    private let redis: SimulatedRedis
    private var requests: [RedisLink.Request] = []
    /// A blocking command waits for a job.
    private(set) var isBlocked = false
    private var isClosed = false
    private var waits = 0
    var reply: ([RedisReply]) -> Void = { _ in }

    init(_ world: World, _ redis: SimulatedRedis, worker: Int) { (self.world, self.redis, self.worker) = (world, redis, worker) }

    func receive(_ new: [RedisLink.Request]) {
        if isClosed { return }
        if world.time < redis.busyUntil {
            return world.at(redis.busyUntil) { [self] in receive(new) }
        }
        requests += new
        if !isBlocked { process() }
    }

    func close() {
        isClosed = true
        requests = []
        if isBlocked { redis.waiting.removeAll { $0 === self } }
        isBlocked = false
    }

    private func process() {
        var replies: [RedisReply] = []
        while !requests.isEmpty, !isBlocked {
            if requests[0].call == .wait {
                guard let head = redis.peek() else {
                    block()
                    break
                }
                requests.removeFirst()
                replies.append(head)
                world.note(.waitEnded, worker, 1)
            } else {
                let end = requests.firstIndex { $0.call == .wait } ?? requests.count
                let part = Array(requests[..<end])
                requests.removeFirst(end)
                replies += redis.execute(part, worker: worker)
            }
        }
        if !replies.isEmpty { reply(replies) }
    }

    private func block() {
        isBlocked = true
        waits += 1
        redis.waiting.append(self)
        let own = waits
        world.after(Int64(CallEncoder.waitSeconds) * .second) { [self] in
            guard isBlocked, own == waits else { return }
            redis.waiting.removeAll { $0 === self }
            unblock(.null)
        }
    }

    /// The blocking command ends, and those behind it run.
    func unblock(_ head: RedisReply) {
        isBlocked = false
        requests.removeFirst()
        world.note(.waitEnded, worker, head == .null ? 0 : 1)
        reply([head])
        process()
    }
}
