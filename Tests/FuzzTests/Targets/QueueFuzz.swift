import Platform
@testable import RedisQueue

/// A worker whose server replies with anything: it connects, claims and settles, and each reply answers the oldest call.
enum QueueFuzz {
    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let mode: QueueSettings.DeliveryMode = input.byte() & 1 == 0 ? .atLeastOnce : .atMostOnce
        var choices = FuzzInput(input.bytes(16))
        var worker = Worker(mode: mode)
        for reply in ReplyFuzz.read([Array(input.rest)]).replies.prefix(200) {
            if choices.isEmpty { choices = FuzzInput(Array(bytes.prefix(17))) }
            try worker.receive(reply, choice: choices.byte())
        }
        worker.stop()
    }

    private struct Worker {
        private var machine: QueueMachine
        private var now = Instant.now
        private var effects: [QueueMachine.Effect] = []
        private var encoder: CallEncoder
        private let mode: QueueSettings.DeliveryMode
        /// The calls without a reply, by their connection.
        private var first: [Call] = []
        private var second: [Call] = []
        private var held: [ClaimID] = []

        init(mode: QueueSettings.DeliveryMode) {
            let settings = QueueSettings(list: "q", server: .tcp(host: "localhost", port: 6379), mode: mode, resultsKey: "r")
            self.mode = mode
            machine = QueueMachine(settings: settings, worker: "me", seed: 7, now: now)
            encoder = CallEncoder(settings: settings, worker: .make(instance: 1), information: [], epochSeed: 1)
            machine.offer(places: 100, now: now)
            turn()
        }

        mutating func receive(_ reply: RedisReply, choice: UInt8) throws {
            let isSecond = choice & 1 == 1 && !second.isEmpty
            guard let call = isSecond ? second.first : first.first else { return }
            if isSecond { second.removeFirst() } else { first.removeFirst() }
            let sentAt = now
            if choice & 2 != 0 { pass(.milliseconds(Int64(choice) * 10)) }
            machine.received(reply, to: call, sentAt: sentAt, now: now, isGone: { $0.hasPrefix("gone") }, into: &effects)
            if choice & 4 != 0 { settle(choice) }
            if choice & 64 != 0 { machine.offer(places: Int(choice), now: now) }
            turn()
            if choice & 8 != 0, let deadline = machine.deadline {
                now = max(now, deadline)
                turn()
            }
            let jobs = machine.holdings.chunks
            try BrokenPromise.unless(jobs.count >= 0 && jobs.byteCount >= 0, "a negative number of held jobs")
            try BrokenPromise.unless(jobs.ids.count == jobs.count, "the window miscounts its jobs")
        }

        private mutating func pass(_ time: Duration) { now += time }

        private mutating func settle(_ choice: UInt8) {
            for id in held {
                let effect: Settlement.Effect =
                    switch choice >> 4 & 7 {
                    case 0: .ack
                    case 1: .delay(job: [1], .after(.seconds(Int64.max)), isRetry: true)
                    case 2: .delay(job: [1], .at(milliseconds: .min), isRetry: false)
                    case 3: .deadLetter(record: [1], isExpired: false)
                    case 4: .release(toTail: false)
                    case 5: .release(toTail: true)
                    case 6: .replace(with: [1], toTail: false)
                    case 7 where choice >= 0x80: .split(into: JobParts(texts: [[1], [2]]))
                    default: .split(into: JobParts(prefix: [1], ranges: [0..<1, 1..<2], suffix: [2]))
                    }
                machine.settle(Settlement(id: id, effect: effect, resends: 1), now: now - .seconds(1))
                machine.countMaybeDuplicate(now: now - .seconds(1))
            }
            held = []
        }

        /// Does what is due, as the shell of the queue does it.
        private mutating func turn() {
            machine.advance(now: now, into: &effects)
            var (isConnected, isRenamed) = (false, false)
            var out: [UInt8] = []
            for effect in effects {
                switch effect {
                case .dial: isConnected = true
                case .hangUp: (first, second) = ([], [])
                case .call(let call): first += sent(call, &out)
                case .wait(let claim): second += [.wait] + (claim.map { sent(.claim($0), &out) } ?? [])
                case .rename: isRenamed = true
                case .follow, .learn: break
                case .report(.claimed(let jobs)), .report(.suspects(let jobs)): held += jobs.map(\.id)
                case .report(.disowned(let ids, _)): held.removeAll { ids.contains($0) }
                case .report: break
                }
            }
            effects = []
            if isRenamed {
                machine.renamed(to: "new", into: &effects)
                return turn()
            }
            guard isConnected else { return }
            machine.connected(into: &effects)
            turn()
        }

        /// The call, and the read of the jobs that follows a claim.
        private mutating func sent(_ call: Call, _ out: inout [UInt8]) -> [Call] {
            encoder.write(call, number: machine.number, to: &out)
            if case .claim(let claim) = call { return [call] + sent(.jobs(of: claim), &out) }
            return [call]
        }

        mutating func stop() {
            machine.stop()
            turn()
            _ = machine.sendingDeadline
        }
    }
}

/// The protocol of Redis, in any pieces.
enum ReplyFuzz {
    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let pieces = input.pieces()
        let parted = read(pieces)
        let whole = read([Array(pieces.joined())])
        try BrokenPromise.unless(parted.replies == whole.replies && parted.isBroken == whole.isBroken, "the pieces change it")
        for reply in whole.replies { describe(reply) }
    }

    static func read(_ pieces: [[UInt8]]) -> (replies: [RedisReply], isBroken: Bool) {
        var reader = ReplyReader()
        var replies: [RedisReply] = []
        for piece in pieces {
            reader.feed(piece, count: piece.count)
            do { while let reply = try reader.next() { replies.append(reply) } } catch { return (replies, true) }
        }
        return (replies, false)
    }

    private static func describe(_ reply: RedisReply) {
        switch reply {
        case .error(let error):
            _ = error.description
            _ = Waiting.missingFeature(error)
            if case .moved(let node) = error.kind {
                var locator = ServerLocator(.tcp(host: "localhost", port: 1))
                _ = locator.begin()
                locator.moved(to: node)
                _ = locator.begin()
            }
        case .array(let items): items.forEach(describe)
        case .string, .status: _ = ServerInfo(reply.text ?? "").warnings
        case .integer, .null: break
        }
        _ = reply.count
        _ = QueuePause.split(reply)
        if let items = reply.items {
            _ = Endpoint.nodes(items, besides: .tcp(host: "localhost", port: 1))
            if items.count >= 8 { _ = QueueStatus(items).unexplained }
        }
    }
}
