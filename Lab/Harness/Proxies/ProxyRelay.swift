import Glibc
internal import Sockets
import SystemTime
internal import Threads

/// The work of a `FaultProxy` thread: its listener and its pairs of connections.
struct ProxyRelay {
    private let door: ProxyDoor
    private var random: SeededGenerator
    private var pairs: [Pair] = []
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)
    private var poller = Poller()

    init(door: ProxyDoor, random: SeededGenerator) {
        (self.door, self.random) = (door, random)
    }

    /// Runs one round. Returns `false` when the proxy stops.
    mutating func turn(_ bell: WakeUp, _ control: Locked<FaultProxy.Control>) -> Bool {
        sleep(bell, queueBytes: control.withLock { $0.behaviour.queueBytes })
        if poller.readiness(at: 0) != [] { bell.listen() }
        let now = control.withLock { control in
            defer { (control.cutsNow, control.deadensNow) = (false, false) }
            return control
        }
        if now.isOver { return false }
        if now.deadensNow { for pair in pairs { pair.isDead = true } }
        // Places 0 and 1 are the wake-up and the listener; each pair has two.
        for (index, pair) in pairs.enumerated() {
            if poller.readiness(at: 2 + 2 * index) != [] { read(pair, isReply: false, now, control) }
            if poller.readiness(at: 3 + 2 * index) != [] { read(pair, isReply: true, now, control) }
            pair.flush(now.behaviour)
        }
        let accepts = poller.readiness(at: 1) != []
        pairs.removeAll { $0.isOver || now.cutsNow }
        if accepts { accept(now, control) }
        return true
    }

    private mutating func sleep(_ bell: WakeUp, queueBytes: Int) {
        poller.reset()
        poller.add(bell.descriptor, for: .read)
        poller.add(door.listener.descriptor, for: .read)
        var deadline: Instant?
        for pair in pairs {
            poller.add(pair.daemon.descriptor, for: pair.interest(isReply: false, mostWaiting: queueBytes))
            poller.add(pair.server.descriptor, for: pair.interest(isReply: true, mostWaiting: queueBytes))
            if let due = pair.due { deadline = deadline.map { min($0, due) } ?? due }
        }
        poller.wait(until: deadline)
    }

    private mutating func accept(_ now: FaultProxy.Control, _ control: Locked<FaultProxy.Control>) {
        while let daemon = door.listener.accept() {
            if now.behaviour.refuses { continue }
            // Without a server the connection closes, as at a port without a listener.
            guard let server = try? Socket(connectingTo: now.target) else { continue }
            let allowance = now.behaviour.cutAfter.map { Int.random(in: $0, using: &random) }
            pairs.append(Pair(daemon: daemon, server: server, allowance: allowance))
            control.withLock { $0.connections += 1 }
        }
    }

    private mutating func read(
        _ pair: Pair, isReply: Bool, _ now: FaultProxy.Control, _ control: Locked<FaultProxy.Control>
    ) {
        let count = pair.receive(isReply: isReply, into: &buffer)
        guard count > 0 else { return }
        let behaviour = now.behaviour
        if pair.isDead { return }
        if isReply ? behaviour.swallowsReplies : behaviour.swallowsRequests { pair.stop(isReply: isReply) }
        if !isReply, let text = behaviour.swallowsRepliesTo, buffer[..<count].contains(Array(text.utf8)) {
            pair.stop(isReply: true)
        }
        if pair.isStopped(isReply: isReply) { return }
        let springs = isReply ? nil : spring(count, control)
        if let springs, springs.moment != .afterForwarding { springs.action() }
        var passes = springs?.moment == .insteadOfForwarding ? 0 : count
        if let left = pair.allowance {
            passes = min(passes, left)
            pair.allowance = left - passes
        }
        let chance = isReply ? behaviour.tearsReply : behaviour.tearsRequest
        if chance > 0, Double.random(in: 0..<1, using: &random) < chance {
            passes = min(passes, Int.random(in: 0..<count, using: &random))
        }
        let jitter = behaviour.jitter > .zero ? behaviour.jitter * Double.random(in: 0..<1, using: &random) : .zero
        pair.append(
            buffer[..<passes], isReply: isReply, after: behaviour.delay + jitter, bytesPerSecond: behaviour.bytesPerSecond)
        if passes < count {
            control.withLock { $0.cuts += 1 }
            pair.endsAfterFlush = true
        }
        if let springs, springs.moment == .afterForwarding {
            pair.flush(behaviour)
            springs.action()
        }
    }

    /// Returns the tripwire if these bytes trigger it, and removes it.
    private func spring(_ count: Int, _ control: Locked<FaultProxy.Control>) -> FaultProxy.Tripwire? {
        control.withLock { control in
            guard let tripwire = control.tripwire, tripwire.patterns.contains(where: buffer[..<count].contains) else {
                return nil
            }
            control.tripwire = nil
            return tripwire
        }
    }

    /// A connection of the daemon with its connection to the server.
    private final class Pair {
        private struct Chunk {
            var due: Instant
            var bytes: ArraySlice<UInt8>
        }

        let daemon: Socket
        let server: Socket
        /// The number of bytes that may still pass.
        var allowance: Int?
        var endsAfterFlush = false
        /// Reads from both ends and forwards nothing.
        var isDead = false
        private(set) var isOver = false
        /// A direction that lost bytes stays stopped: TCP delivers all bytes in order or none (RFC 9293, 3.4). A peer that
        /// received the rest would mistake one reply for another.
        private var stopped = (requests: false, replies: false)
        private var waiting: (requests: [Chunk], replies: [Chunk]) = ([], [])
        /// The time at which the last chunk has left the proxy, without its delay, and the time at which it is due.
        private var last: (requests: (left: Instant, due: Instant), replies: (left: Instant, due: Instant))

        init(daemon: consuming Socket, server: consuming Socket, allowance: Int?) {
            self.daemon = daemon
            self.server = server
            self.allowance = allowance
            let now = Instant.now
            last = ((now, now), (now, now))
        }

        /// The events to wait for at the source of these bytes; the proxy writes the other direction to it.
        func interest(isReply: Bool, mostWaiting: Int) -> Poller.Readiness {
            let (incoming, outgoing) = isReply ? (waiting.replies, waiting.requests) : (waiting.requests, waiting.replies)
            var interest: Poller.Readiness = []
            if incoming.reduce(0, { $0 + $1.bytes.count }) < mostWaiting && !endsAfterFlush { interest.insert(.read) }
            if let first = outgoing.first, first.due <= .now { interest.insert(.write) }
            return interest
        }

        /// The time of the next delayed chunk.
        var due: Instant? {
            [waiting.requests.first?.due, waiting.replies.first?.due].compactMap { $0 }.filter { $0 > .now }.min()
        }

        func receive(isReply: Bool, into buffer: inout [UInt8]) -> Int {
            let progress = unsafe buffer.withUnsafeMutableBytes { unsafe isReply ? server.read(into: $0) : daemon.read(into: $0) }
            switch progress {
            case .done(let count): return count
            case .needsRead, .needsWrite: return 0
            case .closed, .failed:
                endsAfterFlush = true
                if waiting.requests.isEmpty && waiting.replies.isEmpty { isOver = true }
                return 0
            }
        }

        func stop(isReply: Bool) {
            if isReply { stopped.replies = true } else { stopped.requests = true }
        }

        func isStopped(isReply: Bool) -> Bool { isReply ? stopped.replies : stopped.requests }

        func append(_ bytes: ArraySlice<UInt8>, isReply: Bool, after delay: Duration, bytesPerSecond: Int?) {
            if bytes.isEmpty { return }
            if isReply {
                waiting.replies.append(Pair.chunk(bytes, after: delay, bytesPerSecond, &last.replies))
            } else {
                waiting.requests.append(Pair.chunk(bytes, after: delay, bytesPerSecond, &last.requests))
            }
        }

        private static func chunk(
            _ bytes: ArraySlice<UInt8>, after delay: Duration, _ bytesPerSecond: Int?, _ last: inout (left: Instant, due: Instant)
        ) -> Chunk {
            let transmission = bytesPerSecond.map { Duration.seconds(Double(bytes.count) / Double(max(1, $0))) } ?? .zero
            last.left = max(last.left, .now) + transmission
            last.due = max(last.due, last.left + delay)
            return Chunk(due: last.due, bytes: bytes)
        }

        func flush(_ behaviour: FaultProxy.Behaviour) {
            write(&waiting.requests, to: server, behaviour)
            write(&waiting.replies, to: daemon, behaviour)
            if endsAfterFlush && waiting.requests.isEmpty && waiting.replies.isEmpty { isOver = true }
        }

        private func write(_ chunks: inout [Chunk], to socket: borrowing Socket, _ behaviour: FaultProxy.Behaviour) {
            while let first = chunks.first, first.due <= .now {
                let piece = behaviour.isBytewise ? first.bytes.prefix(1) : first.bytes
                switch unsafe piece.withUnsafeBytes({ unsafe socket.write($0) }) {
                case .done(let count):
                    chunks[0].bytes = first.bytes.dropFirst(count)
                    if chunks[0].bytes.isEmpty { chunks.removeFirst() }
                case .needsRead, .needsWrite: return
                case .closed, .failed:
                    isOver = true
                    return
                }
            }
        }
    }
}
