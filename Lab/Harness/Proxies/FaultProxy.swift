internal import Sockets
internal import Threads

/// Stands between a daemon and a server, on a loopback port of its own, and breaks what it is told to break.
///
/// Everything happens on one thread of its own; a new `behaviour` holds from the next chunk of bytes on.
public final class FaultProxy {
    /// What it does to the bytes. Chances are from 0 to 1, drawn for every chunk that was read.
    public struct Behaviour: Sendable, Equatable {
        /// Every chunk is handed on so much later.
        public var delay = Duration.zero
        /// One byte for each write.
        public var isBytewise = false
        /// What the daemon sends is taken, and goes nowhere: half of a dead cable.
        public var swallowsRequests = false
        /// What the server answers is taken, and goes nowhere.
        public var swallowsReplies = false
        /// New connections are closed at once.
        public var refuses = false
        /// Chance that a part of a request, or nothing, is handed on before both ends are closed.
        public var tearsRequest = 0.0
        /// Chance that a part of a reply, or nothing, is handed on before both ends are closed. The request has been carried out.
        public var tearsReply = 0.0
        /// Each new connection ends after a number of bytes, both ways together, that lies in this range.
        public var cutAfter: ClosedRange<Int>?

        public init() {}

        /// Nothing passes, in neither direction, and nobody is told.
        public static var halfOpen: Behaviour {
            var behaviour = Behaviour()
            (behaviour.swallowsRequests, behaviour.swallowsReplies) = (true, true)
            return behaviour
        }
    }

    /// Something to do when bytes pass toward the server.
    public struct Tripwire: Sendable {
        public enum Moment: Sendable, CaseIterable {
            case beforeForwarding, afterForwarding
            /// The server never sees these bytes, and the connection ends.
            case insteadOfForwarding
        }

        let patterns: [[UInt8]]
        let moment: Moment
        let action: @Sendable () -> Void

        /// - Parameters:
        ///   - patterns: any of them, looked for in each chunk on its own.
        ///   - action: runs on the proxy's thread, once.
        public init(on patterns: String..., at moment: Moment, action: @escaping @Sendable () -> Void) {
            (self.patterns, self.moment, self.action) = (patterns.map { Array($0.utf8) }, moment, action)
        }
    }

    struct Control: Sendable {
        var target: SocketAddress
        var behaviour = Behaviour()
        var tripwire: Tripwire?
        var cutsNow = false
        var deadensNow = false
        var isOver = false
        var cuts = 0
        var connections = 0
    }

    /// On 127.0.0.1.
    public let port: Int
    private let control: Locked<Control>
    private let bell = WakeUp()
    private var thread: OwnedThread?

    /// - Parameter seed: of every chance.
    public convenience init(toUnixSocket path: String, seed: UInt64) throws {
        try self.init(to: try SocketAddress(unixPath: path), seed: seed)
    }

    /// To a port of the loopback interface.
    public convenience init(toPort target: Int, seed: UInt64) throws {
        guard let address = try SocketAddress.resolve(host: "127.0.0.1", port: target).first else {
            throw ChildProcess.Failure(description: "no loopback address")
        }
        try self.init(to: address, seed: seed)
    }

    private init(to target: SocketAddress, seed: UInt64) throws {
        let door = ProxyDoor(try Listener(port: 0))
        port = door.listener.port
        let (control, bell) = (Locked(Control(target: target)), bell)
        self.control = control
        thread = try OwnedThread(name: "fault proxy") {
            var relay = ProxyRelay(door: door, random: SeededGenerator(seed: seed))
            while relay.turn(bell, control) {}
        }
    }

    deinit {
        change { $0.isOver = true }
        thread.take()?.join()
    }

    public var behaviour: Behaviour {
        get { control.withLock { $0.behaviour } }
        set { change { $0.behaviour = newValue } }
    }

    /// New connections go to this socket; those there are stay where they are.
    public func lead(toUnixSocket path: String) throws {
        let target = try SocketAddress(unixPath: path)
        change { $0.target = target }
    }

    /// Closes every connection there is.
    public func cutAll() { change { $0.cutsNow = true } }

    /// From now on nothing passes on the connections there are, and neither end is told; new ones are served. A router that
    /// forgot them does so.
    public func deadenAll() { change { $0.deadensNow = true } }

    public func set(_ tripwire: Tripwire?) { change { $0.tripwire = tripwire } }

    /// Whether a tripwire waits that nothing has touched yet.
    public var isArmed: Bool { control.withLock { $0.tripwire != nil } }

    /// How often it has closed a connection by itself: torn, or at its number of bytes.
    public var cuts: Int { control.withLock { $0.cuts } }

    /// How many connections it has ever carried.
    public var connections: Int { control.withLock { $0.connections } }

    private func change(_ body: (inout Control) -> Void) {
        control.withLock { body(&$0) }
        bell.ring()
    }
}
