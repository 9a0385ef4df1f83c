internal import Platform

/// A proxy on a loopback port between a daemon and a server, which injects faults and distance.
///
/// It runs on its own thread. A new `behaviour` applies from the next chunk of bytes.
public final class FaultProxy {
    /// The treatment of the bytes. Probabilities, from 0 to 1, apply to each chunk.
    public struct Behaviour: Sendable, Equatable {
        /// Delays every chunk, in each direction: half a round trip.
        public var delay = Duration.zero
        /// The longest additional delay, which is random for each chunk. Chunks keep their order, as in TCP.
        public var jitter = Duration.zero
        /// The bytes per second of each direction of a connection; `nil` sets no limit.
        public var bytesPerSecond: Int?
        /// The bytes of each direction of a connection that may be on their way; the proxy reads no more until some arrive.
        public var queueBytes = 1 << 20
        /// Writes one byte at a time.
        public var isBytewise = false
        /// Stops the replies before the last byte of a chunk: the daemon waits inside a TLS record.
        public var stopsInsideReply = false
        /// Writes one byte of the replies in each such time.
        public var replyByteInterval: Duration?
        /// Reads no request of the daemon.
        public var isDeaf = false
        /// Replies to this share of the requests with the next of `refusals`, in place of Redis. Affects new connections, and
        /// those that were made with `refusals`.
        public var refusedShare = 0.0
        public var refusals: [String] = []
        /// Reads the requests of the daemon and drops them.
        public var swallowsRequests = false
        /// Reads the replies of the server and drops them.
        public var swallowsReplies = false
        /// Drops the replies of the server on a connection from its first request with this text on.
        public var swallowsRepliesTo: String?
        /// Closes new connections at once.
        public var refuses = false
        /// The probability that the proxy forwards a part of a request, or nothing, and then closes both ends.
        public var tearsRequest = 0.0
        /// The same for a reply: the server has executed the request.
        public var tearsReply = 0.0
        /// Each new connection ends after a random number of bytes in this range, both directions together.
        public var cutAfter: ClosedRange<Int>?

        public init() {}

        /// Drops everything in both directions, without closing.
        public static var halfOpen: Behaviour {
            var behaviour = Behaviour()
            (behaviour.swallowsRequests, behaviour.swallowsReplies) = (true, true)
            return behaviour
        }
    }

    /// An action when certain bytes pass to the server.
    public struct Tripwire: Sendable {
        public enum Moment: Sendable, CaseIterable {
            case beforeForwarding, afterForwarding
            /// Drops the bytes and closes the connection.
            case insteadOfForwarding
        }

        let patterns: [[UInt8]]
        let moment: Moment
        let action: @Sendable () -> Void

        /// - Parameters:
        ///   - patterns: any of them triggers the action; the proxy searches each chunk separately.
        ///   - action: runs once, on the thread of the proxy.
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
        var refused = 0
    }

    /// On 127.0.0.1.
    public let port: Int
    private let control: Locked<Control>
    private let bell = WakeUp()
    private var thread: OwnedThread?

    /// - Parameter seed: of the random numbers.
    public convenience init(toUnixSocket path: String, seed: UInt64) throws {
        try self.init(to: try SocketAddress(unixPath: path), seed: seed)
    }

    public convenience init(toPort target: Int, seed: UInt64) throws {
        guard let address = try SocketAddress.resolve(host: "127.0.0.1", port: target).first else {
            throw HarnessError("the loopback address does not resolve")
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

    /// Leads new connections to this socket; existing connections stay.
    public func lead(toUnixSocket path: String) throws {
        let target = try SocketAddress(unixPath: path)
        change { $0.target = target }
    }

    /// Closes every connection.
    public func cutAll() { change { $0.cutsNow = true } }

    /// Drops all further bytes of the existing connections without closing them, as a router does that forgot them.
    /// New connections work.
    public func deadenAll() { change { $0.deadensNow = true } }

    public func set(_ tripwire: Tripwire?) { change { $0.tripwire = tripwire } }

    /// The number of connections that the proxy closed itself, torn or at their number of bytes.
    public var cuts: Int { control.withLock { $0.cuts } }

    /// The number of connections so far.
    public var connections: Int { control.withLock { $0.connections } }

    /// The number of requests with one of `refusals` as the reply.
    public var refused: Int { control.withLock { $0.refused } }

    private func change(_ body: (inout Control) -> Void) {
        control.withLock { body(&$0) }
        bell.ring()
    }
}

/// Carries a listener, which is not copyable, to the thread that uses it.
final class ProxyDoor: Sendable {
    let listener: Listener
    init(_ listener: consuming Listener) { self.listener = listener }
}

/// Generates the same numbers for the same seed (SplitMix64).
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    public init(seed: UInt64) { state = seed }

    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
