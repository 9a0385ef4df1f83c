import CLinux
import Glibc
import HeapModule
import Platform

/// The loop of the simulator's thread: sleep, execute orders, read and answer, publish, write.
@safe final class ServerLoop {
    private enum Number {
        static let listener = -1
        static let orders = -2
        static let management = -3
    }

    /// Interval between attempts to listen on a port that is temporarily taken.
    private static let listenInterval = Duration.milliseconds(20)
    /// Pause before the next accept if the process is out of descriptors. epoll would report the waiting client continuously.
    private static let acceptPause = Duration.milliseconds(20)

    private let host: String
    let port: Int
    var managementPort: Int? { management?.port }
    private let tlsContext: TLSContext
    /// Rejects every client certificate.
    private let strictTLSContext: TLSContext
    private let context: ServerContext
    private let mailbox: Mailbox<Simulator.Order>
    private var queue: EventQueue
    private var listener: Listener?
    /// The listener of the channel management API, if it has a port of its own.
    private var management: Listener?
    private var listenAgain: Instant?
    private var acceptAgain: Instant?
    private var connectGate = ConnectGate()
    private var connections: [Int: ServerConnection] = [:]
    private var nextNumber = 1
    private var ready: [Int] = []
    private var touched: [ServerConnection] = []
    private var isStopped = false
    private let buffer: UnsafeMutableRawBufferPointer

    init(
        _ configuration: Simulator.Configuration, _ mailbox: Mailbox<Simulator.Order>, _ ledger: Ledger,
        _ recent: RecentPushes?
    ) throws(SimulatorError) {
        let credentials = configuration.credentials
        let identity = TLSContext.Identity(
            certificatesPEM: credentials.serverCertificatePEM, keyPEM: credentials.serverKeyPEM)
        let listener: Listener
        do {
            tlsContext = try TLSContext(
                serverFor: identity, clientRootsPEM: configuration.authentication == .token ? nil : credentials.authorityPEM)
            strictTLSContext = try TLSContext(serverFor: identity, clientRootsPEM: Array("none".utf8))
            management = try configuration.managementPort.map { try Listener(host: configuration.host, port: $0) }
            listener = try Listener(host: configuration.host, port: configuration.port)
        } catch {
            throw SimulatorError("\(error)")
        }
        port = listener.port
        host = configuration.host
        context = try ServerContext(configuration, ledger, recent)
        self.mailbox = mailbox
        queue = try EventQueue()
        unsafe buffer = .allocate(byteCount: 16384, alignment: 16)
        queue.add(mailbox.wakeDescriptor, number: Number.orders, for: .read)
        queue.add(listener.descriptor, number: Number.listener, for: .read)
        self.listener = consume listener
        watchManagement()
        adopt(configuration.behaviour, before: Behaviour())
    }

    deinit { unsafe buffer.deallocate() }

    func run() {
        while !isStopped {
            queue.wait(until: deadline, &ready)
            context.startTurn()
            for order in mailbox.drain() { execute(order) }
            if !context.behaviour.isFrozen { serve() }
            context.writer.flushFile(now: context.now)
            listenIfDue()
            acceptIfDue()
        }
        closeAll(isReset: false)
        context.writer.publish()
        context.writer.flushFile(now: context.now, isLast: true)
    }

    private func serve() {
        for number in ready { advance(number) }
        performDue()
        // The ledger records an answer before the client can read it.
        context.writer.publish()
        writeAll()
        context.writer.publish()
    }

    private var deadline: Instant? {
        let answers = context.behaviour.isFrozen ? nil : context.due.first
        return [answers, context.writer.deadline, listenAgain, acceptAgain].compactMap { $0 }.min()
    }

    private func watchManagement() {
        if let descriptor = management?.descriptor { queue.add(descriptor, number: Number.management, for: .read) }
    }

    private func advance(_ number: Int) {
        switch number {
        case Number.listener: acceptAll()
        case Number.management:
            while let socket = management?.accept() { admit(socket, isManagement: true) }
        case Number.orders: break
        default:
            guard let connection = connections[number] else { return }
            unsafe connection.advance(context, buffer)
            touch(connection)
        }
    }

    private func acceptAll() {
        while true {
            do throws(SocketError) {
                guard let socket = try listener?.acceptNext() else { return }
                admit(socket)
            } catch {
                if let descriptor = listener?.descriptor { queue.remove(descriptor) }
                acceptAgain = context.now + ServerLoop.acceptPause
                return
            }
        }
    }

    private func admit(_ socket: consuming Socket, isManagement: Bool = false) {
        if let limit = context.behaviour.connectLimit, !connectGate.admits(limit, now: context.now) {
            context.writer.totals.blockedConnections += 1
            return SocketClosing.resetOnClose(socket.descriptor)
        }
        // Fails only without memory; the client's connection is then closed.
        let tlsContext = context.behaviour.refusesHandshakes ? strictTLSContext : tlsContext
        guard let tls = try? TLSStream(server: socket, tlsContext) else { return }
        let connection = ServerConnection(number: nextNumber, tls, environment: context.environment, isManagement: isManagement)
        connections[nextNumber] = connection
        queue.add(connection.descriptor, number: nextNumber, for: .read)
        nextNumber += 1
        if context.behaviour.greeting == .tarpit && context.draws(context.behaviour.greetingShare) {
            connection.goDeaf(context)
            touch(connection)
        }
    }

    private func acceptIfDue() {
        guard let due = acceptAgain, due <= context.now else { return }
        acceptAgain = nil
        guard let descriptor = listener?.descriptor, !context.behaviour.isFrozen else { return }
        queue.add(descriptor, number: Number.listener, for: .read)
    }

    private func performDue() {
        while let next = context.due.popDue(context.now) {
            guard let connection = connections[next.connection] else { continue }
            connection.perform(next.due, context)
            touch(connection)
        }
    }

    private func touch(_ connection: ServerConnection) {
        if connection.isTouched { return }
        connection.isTouched = true
        touched.append(connection)
    }

    private func writeAll() {
        for connection in touched {
            connection.isTouched = false
            if !connection.isOver { connection.flush(context) }
            if connection.isOver { forget(connection) } else { watch(connection) }
        }
        touched.removeAll(keepingCapacity: true)
    }

    private func watch(_ connection: ServerConnection) {
        if connection.isDeaf {
            if connection.interest != nil { queue.remove(connection.descriptor) }
            connection.interest = nil
            return
        }
        var interest: EventQueue.Interest = connection.wantsRead ? .read : []
        if connection.wantsWrite { interest.insert(.write) }
        if interest == connection.interest { return }
        connection.interest = interest
        queue.change(connection.descriptor, number: connection.number, to: interest)
    }

    private func forget(_ connection: ServerConnection) {
        let wasKnown = connections.removeValue(forKey: connection.number) != nil
        if wasKnown && connection.wasOpen { context.writer.totals.openConnections -= 1 }
    }

    // MARK: Orders

    private func execute(_ order: Simulator.Order) {
        switch order {
        case .stop: isStopped = true
        case .confirm(let mailbox): mailbox.send(())
        case .behave(let behaviour): adopt(behaviour, before: context.behaviour)
        case .plan(let token, let answers): context.plan(token: token, answers)
        case .advanceClock(let seconds): context.advanceClock(seconds: seconds)
        case .closeConnections(let isReset): closeAll(isReset: isReset)
        case .goAway(let frame, let next):
            for connection in connections.values {
                connection.goAway(frame, answering: nil, context)
                if let next { connection.follow(frame, by: next, context) }
                touch(connection)
            }
        }
    }

    private func adopt(_ behaviour: Behaviour, before: Behaviour) {
        context.behaviour = behaviour
        if behaviour.isFrozen != before.isFrozen { freeze(behaviour.isFrozen) }
        if behaviour.refusesConnections != before.refusesConnections { listen(!behaviour.refusesConnections) }
        for connection in connections.values {
            connection.adopt(behaviour, context)
            touch(connection)
        }
    }

    /// Removes all descriptors from epoll, which would report hang-ups continuously.
    private func freeze(_ isFrozen: Bool) {
        for connection in connections.values {
            guard let interest = connection.interest else { continue }
            if isFrozen {
                queue.remove(connection.descriptor)
            } else {
                queue.add(connection.descriptor, number: connection.number, for: interest)
            }
        }
        guard let descriptor = listener?.descriptor else { return }
        if isFrozen { queue.remove(descriptor) } else { queue.add(descriptor, number: Number.listener, for: .read) }
    }

    private func listen(_ isListening: Bool) {
        listenAgain = nil
        acceptAgain = nil
        listener = nil
        guard isListening else { return }
        guard let listener = try? Listener(host: host, port: port) else {
            // Another program has bound the port.
            listenAgain = context.now + ServerLoop.listenInterval
            return
        }
        if !context.behaviour.isFrozen { queue.add(listener.descriptor, number: Number.listener, for: .read) }
        self.listener = consume listener
    }

    private func listenIfDue() {
        if let due = listenAgain, due <= context.now { listen(true) }
    }

    private func closeAll(isReset: Bool) {
        for connection in connections.values {
            connection.finish(isReset: isReset)
            forget(connection)
        }
    }
}

/// Waits for hundreds of descriptors with epoll(7), level-triggered. The caller assigns a number to each descriptor.
@safe struct EventQueue: ~Copyable {
    struct Interest: OptionSet {
        let rawValue: UInt32
        static let read = Interest(rawValue: EPOLLIN.rawValue)
        static let write = Interest(rawValue: EPOLLOUT.rawValue)
    }

    private let descriptor: CInt
    private var events = unsafe [epoll_event](repeating: epoll_event(), count: 256)

    init() throws(SimulatorError) {
        descriptor = epoll_create1(CInt(EPOLL_CLOEXEC))
        if descriptor < 0 { throw SimulatorError(unsafe "no epoll descriptor: \(String(cString: strerror(errno)))") }
    }

    deinit { close(descriptor) }

    /// Adds a descriptor. Closing it removes it.
    func add(_ other: CInt, number: Int, for interest: Interest) { control(EPOLL_CTL_ADD, other, number, interest) }

    /// Changes the interest. epoll reports hang-ups in any case; see `remove`.
    func change(_ other: CInt, number: Int, to interest: Interest) { control(EPOLL_CTL_MOD, other, number, interest) }

    /// Removes a descriptor. Its hang-ups are no longer reported.
    func remove(_ other: CInt) { control(EPOLL_CTL_DEL, other, 0, []) }

    /// Fills `ready` with the numbers of the ready descriptors. Returns at `deadline` at the latest; `nil` has no limit.
    mutating func wait(until deadline: Instant?, _ ready: inout [Int]) {
        ready.removeAll(keepingCapacity: true)
        let count = unsafe epoll_wait(descriptor, &events, CInt(events.count), EventQueue.milliseconds(until: deadline))
        for index in 0..<max(0, Int(count)) { unsafe ready.append(Int(truncatingIfNeeded: events[index].data.u64)) }
    }

    /// Returns the time left, rounded up to avoid a wake-up before the deadline; -1 for no limit.
    private static func milliseconds(until deadline: Instant?) -> CInt {
        guard let deadline else { return -1 }
        let (seconds, attoseconds) = max(.zero, deadline - .now).components
        if seconds >= 3600 { return 3_600_000 }
        return CInt(seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    private func control(_ operation: CInt, _ other: CInt, _ number: Int, _ interest: Interest) {
        var event = unsafe epoll_event(events: interest.rawValue, data: epoll_data_t(u64: UInt64(truncatingIfNeeded: number)))
        unsafe epoll_ctl(descriptor, operation, other, &event)
    }
}

/// Elements with due times. Elements with equal times come out in the order of insertion.
struct Deadlines<Element> {
    private struct Entry: Comparable {
        var due: Instant
        var number: UInt64
        var element: Element

        static func < (left: Entry, right: Entry) -> Bool { (left.due, left.number) < (right.due, right.number) }
        static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    private var heap = Heap<Entry>()
    private var nextNumber: UInt64 = 0

    var first: Instant? { heap.min?.due }

    mutating func add(_ element: Element, at due: Instant) {
        heap.insert(Entry(due: due, number: nextNumber, element: element))
        nextNumber += 1
    }

    /// Removes and returns the earliest element if it is due.
    mutating func popDue(_ now: Instant) -> Element? {
        guard let first, first <= now else { return nil }
        return heap.popMin()?.element
    }
}
