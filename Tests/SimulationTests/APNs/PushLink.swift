import Platform

@testable import PushPool

/// One connection to the simulated APNs: both directions of the network, and the server's side.
final class PushLink {
    enum Frame {
        case response(StreamID, Outcome, Ledger.Attempt)
        case reset(StreamID, code: UInt32, Ledger.Attempt)
        case settings(Int)
        case goAway(last: StreamID)
        case pong(UInt64)
        case closed
    }

    private let world: World
    private let apns: SimulatedAPNs
    let session: Int
    private let onArrival: () -> Void
    private var upFree: Int64 = 0
    private var downFree: Int64 = 0

    /// Frames that the session has not read.
    private(set) var arrived: [Frame] = []
    /// Nothing travels any more.
    private var isCut = false
    /// The server neither answers nor closes.
    private(set) var isSilent = false
    private var processesSilently = false
    /// The client has closed its end.
    private var isClosed = false
    /// Bytes do not leave before this time.
    private(set) var stalledUntil: Int64 = 0
    private(set) var isFaulty = false
    private(set) var unanswered: [Ledger.Attempt] = []

    // The server.
    private var open: [StreamID: Ledger.Attempt] = [:]
    private var lastProcessed: StreamID = 0
    private var lastReceived: StreamID = 0
    /// GOAWAY was sent: nothing above is processed.
    private var lastAccepted: StreamID?

    init(_ world: World, _ apns: SimulatedAPNs, session: Int, onArrival: @escaping () -> Void) {
        (self.world, self.apns, self.session, self.onArrival) = (world, apns, session, onArrival)
        apns.links.append(self)
    }

    var isUp: Bool { !isCut && !isSilent && !isClosed }

    // MARK: The client

    func takeFrames() -> [Frame] {
        if arrived.isEmpty { return [] }
        defer { arrived = [] }
        return arrived
    }

    func request(_ stream: StreamID, _ attempt: Ledger.Attempt) {
        unanswered.append(attempt)
        up { [self] in receive(stream, attempt) }
    }

    func cancel(_ stream: StreamID) { up { [self] in open[stream] = nil } }
    func ping(_ number: UInt64) { up { [self] in down(.pong(number)) } }

    /// The session has read the response.
    func answered(_ attempt: Ledger.Attempt) {
        attempt.isAnswered = true
        if let place = unanswered.firstIndex(where: { $0 === attempt }) { unanswered.remove(at: place) }
    }

    /// The client closes its end: what it has written before still arrives.
    func close() {
        if isClosed { return }
        if isFaulty { for attempt in unanswered { apns.ledger.isInDoubt(attempt) } }
        up { [self] in isCut = true }
        isClosed = true
    }

    private func up(_ body: @escaping () -> Void) {
        if isCut || isClosed { return }
        upFree = max(upFree, world.time + world.time(in: apns.profile.latency), stalledUntil)
        world.at(upFree) { [self] in if !isCut { body() } }
    }

    private func down(_ frame: Frame) {
        if isCut || isSilent || isClosed { return }
        downFree = max(downFree, world.time + world.time(in: apns.profile.latency))
        world.at(downFree) { [self] in
            if isCut || isClosed { return }
            arrived.append(frame)
            onArrival()
        }
    }

    // MARK: The server

    private func receive(_ stream: StreamID, _ attempt: Ledger.Attempt) {
        if stream <= lastReceived { return world.fail("stream \(stream) after \(lastReceived)") }
        lastReceived = stream
        if let lastAccepted, stream > lastAccepted { return }
        open[stream] = attempt
        if open.count > apns.profile.streams {
            world.fail("\(open.count) streams are open, the limit is \(apns.profile.streams)")
        }
        if isSilent && !processesSilently { return }
        if apns.isSilent { return apns.ledger.isInDoubt(attempt) }
        if world.chance(apns.profile.refused) {
            open[stream] = nil
            return down(.reset(stream, code: SessionMachine.refusedStream, attempt))
        }
        world.after(apns.thinking()) { [self] in process(stream, attempt) }
    }

    private func process(_ stream: StreamID, _ attempt: Ledger.Attempt) {
        // A server may process what it has received, even if the connection is gone.
        if isCut && !world.chance(0.5) { return }
        if let lastAccepted, stream > lastAccepted { return }
        if isSilent && !processesSilently { return }
        lastProcessed = max(lastProcessed, stream)
        if world.chance(apns.profile.reset) {
            apns.ledger.isInDoubt(attempt)
            if world.chance(0.5) { _ = apns.judge(attempt) }
            open[stream] = nil
            return down(.reset(stream, code: 2, attempt))
        }
        let isIgnored = world.chance(apns.profile.ignored)
        if isIgnored { apns.ledger.isInDoubt(attempt) }
        let outcome = apns.judge(attempt)
        if isIgnored { return }
        open[stream] = nil
        down(.response(stream, outcome, attempt))
    }

    // MARK: Faults

    /// The server shuts down. It has not processed requests above the last stream.
    func goAway(thenCut: Int64?) {
        if lastAccepted != nil || lastReceived == 0 { return }
        let candidates = [lastProcessed] + open.keys.filter { $0 > lastProcessed }.sorted()
        let last = candidates[world.number(in: 0...candidates.count - 1)]
        lastAccepted = last
        world.note(.goAway, session, Int(last.number))
        down(.goAway(last: last))
        if let thenCut { world.after(thenCut) { [self] in cut() } }
    }

    func cut() {
        if isCut { return }
        isFaulty = true
        isCut = true
        // A reset may also remove what has arrived and was not read.
        if world.chance(0.5) { arrived = [] }
        world.after(world.skewed(upTo: 20 * .millisecond)) { [self] in
            if isClosed { return }
            arrived.append(.closed)
            onArrival()
        }
    }

    func fallSilent() {
        isFaulty = true
        isSilent = true
        processesSilently = world.chance(0.5)
    }

    func stall(for pause: Int64) { stalledUntil = max(stalledUntil, world.time + pause) }

    func changeStreams(to limit: Int) { down(.settings(limit)) }
}
