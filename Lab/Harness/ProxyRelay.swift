import Glibc
internal import Platform

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
        sleep(bell, control.withLock { $0.behaviour })
        if poller.readiness(at: 0) != [] { bell.listen() }
        let now = control.withLock { control in
            defer { (control.cutsNow, control.deadensNow) = (false, false) }
            return control
        }
        if now.isOver { return false }
        if now.deadensNow { for pair in pairs { pair.isDead = true } }
        // Places 0 and 1 are the wake-up and the listener; each pair has two.
        for (index, pair) in pairs.enumerated() {
            if now.behaviour.isDeaf && poller.readiness(at: 2 + 2 * index).contains(.broken) { pair.end() }
            if poller.readiness(at: 2 + 2 * index) != [] { read(pair, isReply: false, now, control) }
            if poller.readiness(at: 3 + 2 * index) != [] { read(pair, isReply: true, now, control) }
            pair.flush(now.behaviour)
        }
        let accepts = poller.readiness(at: 1) != []
        pairs.removeAll { $0.isOver || now.cutsNow }
        if accepts { accept(now, control) }
        return true
    }

    private mutating func sleep(_ bell: WakeUp, _ behaviour: FaultProxy.Behaviour) {
        poller.reset()
        poller.add(bell.descriptor, for: .read)
        poller.add(door.listener.descriptor, for: .read)
        var deadline: Instant?
        for pair in pairs {
            poller.add(pair.daemon.descriptor, for: pair.interest(isReply: false, behaviour))
            poller.add(pair.server.descriptor, for: pair.interest(isReply: true, behaviour))
            if let due = pair.due(behaviour) { deadline = deadline.map { min($0, due) } ?? due }
        }
        poller.wait(until: deadline)
    }

    private mutating func accept(_ now: FaultProxy.Control, _ control: Locked<FaultProxy.Control>) {
        while let daemon = door.listener.accept() {
            if now.behaviour.refuses { continue }
            // Without a server the connection closes, as at a port without a listener.
            guard let server = try? Socket(connectingTo: now.target) else { continue }
            let allowance = now.behaviour.cutAfter.map { Int.random(in: $0, using: &random) }
            let refusals = now.behaviour.refusals.isEmpty ? nil : RedisRefusals()
            pairs.append(Pair(daemon: daemon, server: server, allowance: allowance, refusals: refusals))
            control.withLock { $0.connections += 1 }
        }
    }

    private mutating func read(
        _ pair: Pair, isReply: Bool, _ now: FaultProxy.Control, _ control: Locked<FaultProxy.Control>
    ) {
        if !isReply && now.behaviour.isDeaf { return }
        let count = pair.receive(isReply: isReply, into: &buffer)
        guard count > 0 else { return }
        let behaviour = now.behaviour
        if pair.isDead { return }
        if isReply ? behaviour.swallowsReplies : behaviour.swallowsRequests { pair[isReply].isStopped = true }
        if !isReply, let text = behaviour.swallowsRepliesTo, buffer[..<count].contains(Array(text.utf8)) {
            pair.replies.isStopped = true
        }
        if pair[isReply].isStopped { return }
        if pair.refuses { return refuse(pair, buffer[..<count], isReply: isReply, behaviour, control) }
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
        pair[isReply].append(buffer[..<passes], after: behaviour.delay + jitter, behaviour.bytesPerSecond)
        if passes < count {
            control.withLock { $0.cuts += 1 }
            pair.endsAfterFlush = true
        }
        if let springs, springs.moment == .afterForwarding {
            pair.flush(behaviour)
            springs.action()
        }
    }

    private mutating func refuse(
        _ pair: Pair, _ bytes: ArraySlice<UInt8>, isReply: Bool, _ behaviour: FaultProxy.Behaviour,
        _ control: Locked<FaultProxy.Control>
    ) {
        pair.refuse(bytes, isReply: isReply, behaviour) {
            guard !behaviour.refusals.isEmpty, Double.random(in: 0..<1, using: &random) < behaviour.refusedShare else {
                return nil
            }
            return control.withLock { control in
                control.refused += 1
                return behaviour.refusals[control.refused % behaviour.refusals.count]
            }
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
        struct Chunk {
            var due: Instant
            var bytes: ArraySlice<UInt8>
        }

        /// One direction.
        struct Way {
            var waiting: [Chunk] = []
            /// A direction that lost bytes stays stopped: TCP delivers all bytes in order or none (RFC 9293, 3.4). A peer that
            /// received the rest would mistake one reply for another.
            var isStopped = false
            /// The time at which the last chunk has left the proxy, without its delay, and the time at which it is due.
            private var (left, due) = (Instant.now, Instant.now)

            mutating func append(_ bytes: ArraySlice<UInt8>, after delay: Duration, _ bytesPerSecond: Int?) {
                if bytes.isEmpty { return }
                let transmission = bytesPerSecond.map { Duration.seconds(Double(bytes.count) / Double(max(1, $0))) } ?? .zero
                left = max(left, .now) + transmission
                due = max(due, left + delay)
                waiting.append(Chunk(due: due, bytes: bytes))
            }
        }

        let daemon: Socket
        let server: Socket
        /// The number of bytes that may still pass.
        var allowance: Int?
        var endsAfterFlush = false
        /// Reads from both ends and forwards nothing.
        var isDead = false
        private(set) var isOver = false
        var requests = Way()
        var replies = Way()
        private var refusals: RedisRefusals?
        /// Whether the replies have stopped inside a chunk.
        private var isInsideReply = false
        /// The earliest time of the next byte of a reply, with `replyByteInterval`.
        private var nextReplyByte = Instant.now

        init(daemon: consuming Socket, server: consuming Socket, allowance: Int?, refusals: RedisRefusals?) {
            self.daemon = daemon
            self.server = server
            self.allowance = allowance
            self.refusals = refusals
        }

        subscript(isReply: Bool) -> Way {
            _read { if isReply { yield replies } else { yield requests } }
            _modify { if isReply { yield &replies } else { yield &requests } }
        }

        /// The events to wait for at the source of these bytes; the proxy writes the other direction to it.
        func interest(isReply: Bool, _ behaviour: FaultProxy.Behaviour) -> Poller.Readiness {
            var interest: Poller.Readiness = []
            let isFull = self[isReply].waiting.reduce(0, { $0 + $1.bytes.count }) >= behaviour.queueBytes
            if !isFull && !endsAfterFlush && (isReply || !behaviour.isDeaf) { interest.insert(.read) }
            if piece(isReply: !isReply, behaviour) != nil { interest.insert(.write) }
            return interest
        }

        /// The time of the next delayed chunk or byte.
        func due(_ behaviour: FaultProxy.Behaviour) -> Instant? {
            let nextByte = behaviour.replyByteInterval != nil && !replies.waiting.isEmpty ? nextReplyByte : nil
            return [requests.waiting.first?.due, replies.waiting.first?.due, nextByte].compactMap(\.self).filter { $0 > .now }
                .min()
        }

        /// The bytes that may be written now.
        private func piece(isReply: Bool, _ behaviour: FaultProxy.Behaviour) -> ArraySlice<UInt8>? {
            guard let first = self[isReply].waiting.first, first.due <= .now else { return nil }
            var piece = behaviour.isBytewise ? first.bytes.prefix(1) : first.bytes
            if isReply, behaviour.replyByteInterval != nil {
                if nextReplyByte > .now { return nil }
                piece = piece.prefix(1)
            }
            if isReply, behaviour.stopsInsideReply {
                if isInsideReply { return nil }
                piece = piece.prefix(first.bytes.count - 1)
            }
            return piece.isEmpty ? nil : piece
        }

        func receive(isReply: Bool, into buffer: inout [UInt8]) -> Int {
            let progress = unsafe buffer.withUnsafeMutableBytes { unsafe isReply ? server.read(into: $0) : daemon.read(into: $0) }
            switch progress {
            case .done(let count): return count
            case .needsRead, .needsWrite: return 0
            case .closed, .failed:
                endsAfterFlush = true
                // Nothing reads the withheld bytes.
                if !isReply { replies.waiting = [] }
                if requests.waiting.isEmpty && replies.waiting.isEmpty { isOver = true }
                return 0
            }
        }

        /// Closes both ends.
        func end() { isOver = true }

        var refuses: Bool { refusals != nil }

        /// Forwards bytes of a connection with `RedisRefusals`.
        func refuse(_ bytes: ArraySlice<UInt8>, isReply: Bool, _ behaviour: FaultProxy.Behaviour, _ error: () -> String?) {
            if isReply {
                let toDaemon = refusals?.add(replies: bytes) ?? []
                replies.append(toDaemon[...], after: behaviour.delay, behaviour.bytesPerSecond)
            } else if let (toServer, toDaemon) = refusals?.add(requests: bytes, refuse: error) {
                requests.append(toServer[...], after: behaviour.delay, behaviour.bytesPerSecond)
                replies.append(toDaemon[...], after: .zero, nil)
            }
        }

        func flush(_ behaviour: FaultProxy.Behaviour) {
            write(to: server, isReply: false, behaviour)
            write(to: daemon, isReply: true, behaviour)
            if endsAfterFlush && requests.waiting.isEmpty && replies.waiting.isEmpty { isOver = true }
        }

        private func write(to socket: borrowing Socket, isReply: Bool, _ behaviour: FaultProxy.Behaviour) {
            while let piece = piece(isReply: isReply, behaviour) {
                switch unsafe piece.withUnsafeBytes({ unsafe socket.write($0) }) {
                case .done(let count):
                    if isReply, let interval = behaviour.replyByteInterval { nextReplyByte = .now + interval }
                    if isReply { isInsideReply = behaviour.stopsInsideReply }
                    self[isReply].waiting[0].bytes.removeFirst(count)
                    if self[isReply].waiting[0].bytes.isEmpty { self[isReply].waiting.removeFirst() }
                case .needsRead, .needsWrite: return
                case .closed, .failed:
                    isOver = true
                    return
                }
            }
        }
    }
}

/// The length of one value of the Redis protocol: a request or a reply.
enum RESPFrame {
    /// Returns the length of the value at the start of these bytes; `nil` while it is incomplete.
    static func length(of bytes: ArraySlice<UInt8>) -> Int? {
        var rest = bytes
        var values = 1
        while values > 0 {
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            let line = rest[..<end]
            rest = rest[(end + 1)...]
            values -= 1
            let count = Int(String(decoding: line.dropFirst().prefix { $0 != UInt8(ascii: "\r") }, as: UTF8.self)) ?? 0
            switch line.first {
            case UInt8(ascii: "*"): values += max(0, count)
            case UInt8(ascii: "$") where count >= 0:
                guard rest.count >= count + 2 else { return nil }
                rest = rest.dropFirst(count + 2)
            default: break
            }
        }
        return rest.startIndex - bytes.startIndex
    }
}

/// Replies to requests of one connection with errors, in place of Redis, which does not receive these requests.
///
/// The replies keep the order of the requests.
struct RedisRefusals {
    private var requests: [UInt8] = []
    private var replies: [UInt8] = []
    /// An element for each request without a reply: its error, or `nil` if Redis replies.
    private var pending: [String?] = []

    /// Adds bytes of the daemon. Returns the bytes for Redis, and the replies that are due.
    ///
    /// - Parameter refuse: returns the error for the next request, or `nil` if Redis receives it.
    mutating func add(requests bytes: ArraySlice<UInt8>, refuse: () -> String?) -> (toServer: [UInt8], toDaemon: [UInt8]) {
        requests += bytes
        var toServer: [UInt8] = []
        while let request = RedisRefusals.takeValue(of: &requests) {
            let error = refuse()
            pending.append(error)
            if error == nil { toServer += request }
        }
        return (toServer, takeErrors())
    }

    /// Adds bytes of Redis. Returns the replies that are due.
    mutating func add(replies bytes: ArraySlice<UInt8>) -> [UInt8] {
        replies += bytes
        var toDaemon: [UInt8] = []
        while let reply = RedisRefusals.takeValue(of: &replies) {
            toDaemon += reply
            if !pending.isEmpty { pending.removeFirst() }
            toDaemon += takeErrors()
        }
        return toDaemon
    }

    private mutating func takeErrors() -> [UInt8] {
        let errors = pending.prefix { $0 != nil }
        pending.removeFirst(errors.count)
        return errors.flatMap { Array("-\($0 ?? "")\r\n".utf8) }
    }

    private static func takeValue(of bytes: inout [UInt8]) -> [UInt8]? {
        guard let length = RESPFrame.length(of: bytes[...]) else { return nil }
        defer { bytes.removeFirst(length) }
        return Array(bytes[..<length])
    }
}
