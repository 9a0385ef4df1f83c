import Glibc
import Platform

/// A simulated APNs: real TLS and HTTP/2, Apple's rules and reasons, scripted answers, and a ledger of the pushes.
///
/// One thread serves every connection. The methods may be called from any thread.
public final class Simulator: Sendable {
    /// The fixed configuration and the initial behaviour.
    public struct Configuration: Sendable {
        public var host = "127.0.0.1"
        /// 0 lets the kernel choose.
        public var port = 0
        public var environment = PushEnvironment.production
        public var authentication = Authentication.any
        public var credentials: Credentials
        /// The keys that may sign provider tokens. Default: those of `credentials`.
        public var providerKeys: [ProviderKey]
        /// The known bundle ids. Empty: every topic is known.
        public var topics: [String] = []
        /// The bundle ids that may broadcast. Empty: all.
        public var broadcastTopics: [String] = []
        /// The initial broadcast channels. Clients may create more.
        public var channels: [Channel] = []
        public var behaviour = Behaviour()
        public var ledgerDetail = LedgerDetail.requests(keepsBodies: false)
        /// A file that receives one line per request, in addition to the ledger in memory.
        public var ledgerPath: String?
        /// The number of latest pushes that are kept for a `PushPage`; 0 keeps none.
        public var recentPushes = 0

        public init(credentials: Credentials) {
            self.credentials = credentials
            providerKeys = [credentials.providerKey] + credentials.otherKeys
        }
    }

    /// A broadcast channel of an app.
    public struct Channel: Sendable, Equatable {
        public var app: String
        /// The channel id in base64.
        public var id: String
        /// The channel stores its latest message. Otherwise it accepts only broadcasts with an expiration of 0.
        public var stores: Bool

        public init(app: String, id: String, stores: Bool = true) {
            self.app = app
            self.id = id
            self.stores = stores
        }
    }

    enum Order: Sendable {
        case stop
        /// Confirms that all earlier orders are executed.
        case confirm(Mailbox<Void>)
        case behave(Behaviour)
        case plan(token: String, [Answer])
        case goAway(GoAway, then: GoAway?)
        case closeConnections(isReset: Bool)
        case advanceClock(seconds: Int64)
    }

    public let ledger = Ledger()
    /// The latest pushes, for `PushPage`.
    let recent: RecentPushes
    /// The bound port, also if the configuration asks for port 0.
    public let port: Int
    private let orders = Mailbox<Order>()
    private let behaviour: Locked<Behaviour>
    private let thread: JoinOnce

    /// Starts the simulator. It listens when this returns.
    public init(_ configuration: Configuration) throws(SimulatorError) {
        behaviour = Locked(configuration.behaviour)
        recent = RecentPushes(limit: max(1, configuration.recentPushes))
        let started = Mailbox<Result<Int, SimulatorError>>()
        let orders = orders
        let ledger = ledger
        let kept = configuration.recentPushes > 0 ? recent : nil
        do throws(ThreadError) {
            thread = JoinOnce(
                try OwnedThread(name: "apns-simulator") {
                    Simulator.blockSignals()
                    do throws(SimulatorError) {
                        let loop = try ServerLoop(configuration, orders, ledger, kept)
                        started.send(.success(loop.port))
                        loop.run()
                    } catch {
                        started.send(.failure(error))
                    }
                })
        } catch {
            throw SimulatorError(error.description)
        }
        var poller = Poller()
        poller.add(started.wakeDescriptor, for: .read)
        var outcome = started.drain().first
        while outcome == nil {
            poller.wait(until: nil)
            outcome = started.drain().first
        }
        switch outcome {
        case .success(let port): self.port = port
        case .failure(let error):
            thread.join()
            throw error
        case nil: preconditionFailure("the loop ended without an outcome")
        }
    }

    deinit { stop() }

    /// Closes every connection and joins the thread. The ledger stays available. A second call has no effect.
    public func stop() {
        orders.send(.stop)
        thread.join()
    }

    /// Changes the behaviour for every request that is sent after this returns.
    public func behave(_ change: (inout Behaviour) -> Void) {
        // Sent within the lock, so that two changes arrive in their order.
        behaviour.withLock { behaviour in
            change(&behaviour)
            orders.send(.behave(behaviour))
        }
        waitForOrders()
    }

    /// Answers the next valid requests for `token` with `answers`, in turn, before the script applies.
    ///
    /// - Parameters:
    ///   - token: a device token or a channel id.
    ///   - answers: replace the rest of an earlier plan.
    public func plan(token: String, answers: [Answer]) {
        orders.send(.plan(token: token, answers))
        waitForOrders()
    }

    /// Waits until the thread has executed all orders: within its current turn, it would answer later requests without them.
    /// A stopped thread executes no orders.
    private func waitForOrders() {
        let confirmed = Mailbox<Void>()
        orders.send(.confirm(confirmed))
        var poller = Poller()
        let latest = Instant.now + Simulator.orderTimeout
        while confirmed.drain().isEmpty && !thread.isJoined && Instant.now < latest {
            poller.reset()
            poller.add(confirmed.wakeDescriptor, for: .read)
            poller.wait(until: latest)
        }
    }

    /// A thread that does not execute its orders within this time was stopped meanwhile.
    private static let orderTimeout = Duration.seconds(10)

    /// Sends GOAWAY on every open connection. `belowThis` covers all streams begun.
    ///
    /// - Parameter next: a second GOAWAY, sent immediately, or `GoAway.followUp` after a graceful notice.
    public func goAway(_ frame: GoAway = GoAway(), then next: GoAway? = nil) { orders.send(.goAway(frame, then: next)) }

    /// Closes every connection, with RST or cleanly, without answering open requests.
    public func closeConnections(isReset: Bool = true) { orders.send(.closeConnections(isReset: isReset)) }

    /// Advances the clock that provider tokens are checked with; may be negative.
    public func advanceClock(seconds: Int64) { orders.send(.advanceClock(seconds: seconds)) }

    public var totals: Totals { ledger.totals }

    /// Blocks every signal on the thread. OpenSSL writes with write(2): with SIGPIPE blocked, a lost client becomes an error of
    /// the call.
    private static func blockSignals() {
        var all = sigset_t()
        unsafe sigfillset(&all)
        unsafe pthread_sigmask(SIG_BLOCK, &all, nil)
    }
}

/// An error of the simulator, with a message that contains no secrets.
public struct SimulatorError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String
    public init(_ description: String) { self.description = description }
}
