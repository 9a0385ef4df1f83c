import Glibc
import Threads

/// Stands between a worker and Redis, on Unix sockets, and breaks what it is told to break.
final class CuttingProxy {
    struct Fault: Sendable {
        /// Chance that a reply is read from Redis, thrown away, and both ends closed.
        var loseReply = 0.0
        /// Chance that a request is forwarded in part before both ends are closed.
        var tearRequest = 0.0
        /// Takes everything and hands on nothing, either way: the cable is cut, and nobody is told.
        var swallows = false
        /// The same, but only for what Redis says on the connection that is quiet: of the two, the one whose last word to it was BLMOVE.
        var swallowsWaiting = false
    }

    fileprivate struct Control {
        var fault = Fault()
        var cutsNow = false
        var isOver = false
        var cuts = 0
    }

    let path: String
    private let control = Locked(Control())
    private let bell = WakeUp()
    private var thread: OwnedThread?

    /// - Parameter seed: of the chances. Print it.
    init(to server: RedisServer, seed: UInt64) throws {
        path = server.directory + "/proxy.sock"
        let listener = try unixSocket(at: path, listening: true)
        let (target, control, bell) = (server.socketPath, control, bell)
        thread = try OwnedThread(name: "proxy") {
            var relay = Relay(listener: listener, target: target, random: SplitMix(seed))
            while relay.turn(bell, control) {}
        }
    }

    deinit {
        change { $0.isOver = true }
        thread.take()?.join()
    }

    func set(_ fault: Fault) { change { $0.fault = fault } }

    /// Closes every connection there is.
    func cut() { change { $0.cutsNow = true } }

    /// How often it has closed a connection by chance.
    var cuts: Int { control.withLock { $0.cuts } }

    private func change(_ body: (inout Control) -> Void) {
        control.withLock { body(&$0) }
        bell.ring()
    }
}

private struct Relay {
    private struct Pair {
        var worker: CInt
        var redis: CInt
        var isDone = false
        /// The worker's last word on it was the command that blocks.
        var isWaiting = false
    }

    let listener: CInt
    let target: String
    var random: SplitMix
    private var pairs: [Pair] = []
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)

    init(listener: CInt, target: String, random: SplitMix) {
        (self.listener, self.target, self.random) = (listener, target, random)
    }

    /// One round; `false` when it is over.
    mutating func turn(_ bell: WakeUp, _ control: Locked<CuttingProxy.Control>) -> Bool {
        var descriptors = [pollfd(fd: bell.descriptor, events: Int16(POLLIN), revents: 0)]
        descriptors.append(pollfd(fd: listener, events: Int16(POLLIN), revents: 0))
        for pair in pairs {
            descriptors.append(pollfd(fd: pair.worker, events: Int16(POLLIN), revents: 0))
            descriptors.append(pollfd(fd: pair.redis, events: Int16(POLLIN), revents: 0))
        }
        poll(&descriptors, nfds_t(descriptors.count), -1)
        if descriptors[0].revents != 0 { bell.listen() }
        let now = control.withLock { control in
            defer { control.cutsNow = false }
            return control
        }
        for index in pairs.indices {
            if descriptors[2 + 2 * index].revents != 0 { forward(index, isReply: false, now.fault, control) }
            if descriptors[3 + 2 * index].revents != 0 && !pairs[index].isDone {
                forward(index, isReply: true, now.fault, control)
            }
        }
        if descriptors[1].revents != 0 { accept() }
        for pair in pairs where pair.isDone || now.cutsNow || now.isOver {
            close(pair.worker)
            close(pair.redis)
        }
        pairs.removeAll { $0.isDone || now.cutsNow || now.isOver }
        if now.isOver { close(listener) }
        return !now.isOver
    }

    private mutating func accept() {
        let worker = Glibc.accept(listener, nil, nil)
        if worker < 0 { return }
        guard let redis = try? unixSocket(at: target, listening: false) else {
            close(worker)
            return
        }
        pairs.append(Pair(worker: worker, redis: redis))
    }

    private mutating func forward(
        _ index: Int, isReply: Bool, _ fault: CuttingProxy.Fault, _ control: Locked<CuttingProxy.Control>
    ) {
        let (from, to) = isReply ? (pairs[index].redis, pairs[index].worker) : (pairs[index].worker, pairs[index].redis)
        let count = recv(from, &buffer, buffer.count, CInt(MSG_DONTWAIT))
        if count <= 0 {
            pairs[index].isDone = true
            return
        }
        if !isReply { pairs[index].isWaiting = buffer.prefix(count).starts(with: Array("*6\r\n$6\r\nBLMOVE".utf8)) }
        if fault.swallows || fault.swallowsWaiting && pairs[index].isWaiting { return }
        let chance = Double.random(in: 0..<1, using: &random)
        if chance < (isReply ? fault.loseReply : fault.tearRequest) {
            // Of a request a part arrives; of a reply, nothing or a part.
            let part = Int.random(in: 0..<count, using: &random)
            if part > 0 { send(to, buffer, part, CInt(MSG_NOSIGNAL)) }
            pairs[index].isDone = true
            control.withLock { $0.cuts += 1 }
            return
        }
        var sent = 0
        while sent < count {
            let step = buffer.withUnsafeBytes { send(to, $0.baseAddress! + sent, count - sent, CInt(MSG_NOSIGNAL)) }
            if step <= 0 {
                pairs[index].isDone = true
                return
            }
            sent += step
        }
    }
}

private func unixSocket(at path: String, listening: Bool) throws -> CInt {
    let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let status = withUnsafeBytes(of: &address) { raw in
        let address = raw.baseAddress!.assumingMemoryBound(to: sockaddr.self)
        return listening ? bind(descriptor, address, socklen_t(raw.count)) : connect(descriptor, address, socklen_t(raw.count))
    }
    if status == 0 && (!listening || listen(descriptor, 64) == 0) { return descriptor }
    close(descriptor)
    throw RedisServer.Failure(description: "socket \(path): errno \(errno)")
}

/// SplitMix64: the same seed, the same run.
struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
