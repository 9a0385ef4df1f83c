import Clocks
import Sockets
import Threads

/// The thread's body: sleep, obey, read and answer, publish, write.
final class ServerLoop {
    private enum Number {
        static let listener = -1
        static let orders = -2
    }

    /// Between attempts to listen again, should the port be taken for a moment.
    private static let listenInterval = Duration.milliseconds(20)
    /// Before the next accept when this process is out of descriptors: epoll would report the waiting client for ever.
    private static let acceptPause = Duration.milliseconds(20)

    private let host: String
    let port: Int
    private let context: TLSContext
    /// Finds no certificate of a client good.
    private let strictContext: TLSContext
    private let desk: AnswerDesk
    private let mailbox: Mailbox<Simulator.Order>
    private var queue: EventQueue
    private var listener: Listener?
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
        _ configuration: Simulator.Configuration, _ mailbox: Mailbox<Simulator.Order>, _ ledger: Ledger
    ) throws(SimulatorError) {
        let credentials = configuration.credentials
        let identity = TLSContext.Identity(
            certificatesPEM: credentials.serverCertificatePEM, keyPEM: credentials.serverKeyPEM)
        let listener: Listener
        do {
            context = try TLSContext(
                serverFor: identity, clientRootsPEM: configuration.authentication == .token ? nil : credentials.authorityPEM)
            strictContext = try TLSContext(serverFor: identity, clientRootsPEM: Array("none".utf8))
            listener = try Listener(host: configuration.host, port: configuration.port)
        } catch {
            throw SimulatorError("\(error)")
        }
        port = listener.port
        host = configuration.host
        desk = try AnswerDesk(configuration, ledger)
        self.mailbox = mailbox
        queue = try EventQueue()
        buffer = .allocate(byteCount: 16384, alignment: 16)
        queue.add(mailbox.wakeDescriptor, number: Number.orders, for: .read)
        queue.add(listener.descriptor, number: Number.listener, for: .read)
        self.listener = consume listener
        adopt(configuration.behaviour, before: Behaviour())
    }

    deinit { buffer.deallocate() }

    func run() {
        while !isStopped {
            queue.wait(until: deadline, &ready)
            desk.startTurn()
            for order in mailbox.drain() { obey(order) }
            if !desk.behaviour.isFrozen { serve() }
            desk.writer.flushFile(now: desk.now)
            listenIfDue()
            acceptIfDue()
        }
        closeAll(isReset: false)
        desk.writer.publish()
        desk.writer.flushFile(now: desk.now, isLast: true)
    }

    private func serve() {
        for number in ready { advance(number) }
        performDue()
        // What a client is about to read stands in the ledger first.
        desk.writer.publish()
        writeAll()
        desk.writer.publish()
    }

    private var deadline: Instant? {
        let answers = desk.behaviour.isFrozen ? nil : desk.due.first
        return [answers, desk.writer.deadline, listenAgain, acceptAgain].compactMap { $0 }.min()
    }

    private func advance(_ number: Int) {
        switch number {
        case Number.listener: acceptAll()
        case Number.orders: break
        default:
            guard let connection = connections[number] else { return }
            connection.advance(desk, buffer)
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
                acceptAgain = desk.now + ServerLoop.acceptPause
                return
            }
        }
    }

    private func admit(_ socket: consuming Socket) {
        if let limit = desk.behaviour.connectLimit, !connectGate.admits(limit, now: desk.now) {
            desk.writer.totals.blockedConnections += 1
            return resetOnClose(socket.descriptor)
        }
        // Fails when memory is out, and then this client sees its connection closed.
        guard let tls = try? TLSStream(server: socket, desk.behaviour.refusesHandshakes ? strictContext : context) else { return }
        let connection = ServerConnection(number: nextNumber, tls, environment: desk.environment)
        connections[nextNumber] = connection
        queue.add(connection.descriptor, number: nextNumber, for: .read)
        nextNumber += 1
        if desk.behaviour.greeting == .tarpit && desk.draws(desk.behaviour.greetingShare) {
            connection.goDeaf(desk)
            touch(connection)
        }
    }

    private func acceptIfDue() {
        guard let due = acceptAgain, due <= desk.now else { return }
        acceptAgain = nil
        guard let descriptor = listener?.descriptor, !desk.behaviour.isFrozen else { return }
        queue.add(descriptor, number: Number.listener, for: .read)
    }

    private func performDue() {
        while let next = desk.due.popDue(desk.now) {
            guard let connection = connections[next.connection] else { continue }
            connection.perform(next.due, desk)
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
            if !connection.isOver { connection.flush(desk) }
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
        if wasKnown && connection.wasOpen { desk.writer.totals.openConnections -= 1 }
    }

    // MARK: Orders

    private func obey(_ order: Simulator.Order) {
        switch order {
        case .stop: isStopped = true
        case .confirm(let mailbox): mailbox.send(())
        case .behave(let behaviour): adopt(behaviour, before: desk.behaviour)
        case .plan(let token, let answers): desk.plan(token: token, answers)
        case .advanceClock(let seconds): desk.advanceClock(seconds: seconds)
        case .closeConnections(let isReset): closeAll(isReset: isReset)
        case .goAway(let frame, let next):
            for connection in connections.values {
                connection.sendGoAway(frame, desk)
                if let next { connection.follow(frame, by: next, desk) }
                touch(connection)
            }
        }
    }

    private func adopt(_ behaviour: Behaviour, before: Behaviour) {
        desk.behaviour = behaviour
        if behaviour.isFrozen != before.isFrozen { freeze(behaviour.isFrozen) }
        if behaviour.refusesConnections != before.refusesConnections { listen(!behaviour.refusesConnections) }
        for connection in connections.values {
            connection.adopt(behaviour, desk)
            touch(connection)
        }
    }

    /// Out of epoll altogether: it would go on reporting hang-ups.
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
            // Somebody else has the port at the moment.
            listenAgain = desk.now + ServerLoop.listenInterval
            return
        }
        if !desk.behaviour.isFrozen { queue.add(listener.descriptor, number: Number.listener, for: .read) }
        self.listener = consume listener
    }

    private func listenIfDue() {
        if let due = listenAgain, due <= desk.now { listen(true) }
    }

    private func closeAll(isReset: Bool) {
        for connection in connections.values {
            connection.finish(isReset: isReset)
            forget(connection)
        }
    }
}
