import Platform

@testable import RedisQueue

/// One connection of a worker to Redis: the client's side of it, and the network between both sides.
final class RedisLink {
    struct Request {
        var call: Call
        var bytes: [UInt8]
    }

    struct Sent {
        var call: Call
        var at: Instant
        var due: Instant
    }

    let worker: Int
    private let world: World
    private let peer: RedisPeer
    private let latency: () -> Int64
    private let onArrival: () -> Void

    /// Nothing travels any more. Requests that were under way may still run after this time.
    private var isCut = false
    private var lateness: Int64?
    /// Nothing travels, and neither side knows it.
    private var isHalfOpen = false
    /// The next reply is lost, and the connection with it.
    private var losesReply = false
    private var isClosed = false
    private var upFree: Int64 = 0
    private var downFree: Int64 = 0

    // The client.
    private var outbox: [Request] = []
    private(set) var expected: [Sent] = []
    private var arrived: [RedisReply] = []
    private var isEnded = false
    private var movedAt: Instant?
    private let timeout: Duration

    init(
        _ world: World, _ redis: SimulatedRedis, worker: Int, timeout: Duration, latency: @escaping () -> Int64,
        onArrival: @escaping () -> Void
    ) {
        (self.world, self.worker, self.timeout, self.latency, self.onArrival) = (world, worker, timeout, latency, onArrival)
        peer = RedisPeer(world, redis, worker: worker)
        peer.reply = { [unowned self] in carry($0) }
        redis.links.append(self)
    }

    // MARK: The client, as RedisConnection

    func send(_ call: Call, blocking: Duration = .zero, now: Instant, _ bytes: [UInt8]) {
        outbox.append(Request(call: call, bytes: bytes))
        expected.append(Sent(call: call, at: now, due: now + timeout + blocking))
    }

    var oldest: Instant? { expected.first?.at }

    var deadline: Instant? {
        guard let first = expected.first else { return nil }
        return movedAt.map { max(first.due, $0 + timeout) } ?? first.due
    }

    /// The replies that have arrived. Throws when the connection cannot be used any more.
    func receive(now: Instant, into replies: inout [(sent: Sent, reply: RedisReply)]) throws(RedisError) {
        let isOverdue = deadline.map { now >= $0 } ?? false
        if !arrived.isEmpty {
            movedAt = now
            for reply in arrived {
                if expected.isEmpty { throw .notRedis("a reply without a command") }
                replies.append((expected.removeFirst(), reply))
            }
            arrived.removeAll(keepingCapacity: true)
        }
        if isEnded { throw .closed }
        if isOverdue, let deadline, now >= deadline { throw .timedOut(.reply) }
    }

    func flush() {
        if outbox.isEmpty { return }
        let requests = outbox
        outbox.removeAll(keepingCapacity: true)
        if isCut || isHalfOpen { return }
        upFree = max(upFree, world.time + latency())
        world.at(upFree) { [self] in
            if isHalfOpen { return }
            guard isCut else { return peer.receive(requests) }
            guard let lateness else { return }
            world.after(lateness) { [self] in peer.receive(requests) }
        }
    }

    /// The client closes its end. Requests that were written before still arrive.
    func close() {
        isClosed = true
        if isCut || isHalfOpen { return }
        upFree = max(upFree, world.time + latency())
        world.at(upFree) { [self] in if !isCut && !isHalfOpen { peer.close() } }
    }

    // MARK: Faults

    var isUp: Bool { !isCut && !isHalfOpen && !isClosed }

    /// The connection breaks. Requests that are under way are lost, or they run later.
    func cut() {
        guard !isCut else { return }
        isCut = true
        lateness = world.chance(0.5) ? world.skewed(upTo: 3 * .second) : nil
        // A request that is under way runs at most one latency later than the last one.
        world.at(max(upFree, world.time) + (lateness ?? 0)) { [self] in peer.close() }
        world.after(world.skewed(upTo: 20 * .millisecond)) { [self] in
            isEnded = true
            onArrival()
        }
    }

    func halfOpen() { isHalfOpen = true }
    func loseReply() { losesReply = true }

    private func carry(_ replies: [RedisReply]) {
        if isCut || isHalfOpen || isClosed { return }
        if losesReply { return cut() }
        downFree = max(downFree, world.time + latency())
        world.at(downFree) { [self] in
            if isCut || isHalfOpen || isClosed { return }
            world.note(.replied, worker, replies.count)
            arrived += replies
            onArrival()
        }
    }
}
