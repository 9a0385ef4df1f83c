import Clocks
import Threads

/// APNs, simulated: real TLS and HTTP/2, Apple's rules and reasons, scripted answers, and a ledger of what was accepted.
///
/// One thread of its own serves every connection. All of it may be used from any thread.
public final class Simulator: Sendable {
    /// What cannot change while it runs, and how it behaves first.
    public struct Configuration: Sendable {
        public var host = "127.0.0.1"
        /// 0 lets the kernel choose.
        public var port = 0
        public var environment = PushEnvironment.production
        public var authentication = Authentication.any
        public var credentials: Credentials
        /// The keys that provider tokens may be signed with; the one of `credentials` unless told.
        public var providerKeys: [ProviderKey]
        /// Bundle ids that are known; empty knows every topic.
        public var topics: [String] = []
        /// Bundle ids that may broadcast; empty lets all.
        public var broadcastTopics: [String] = []
        /// Broadcast channels that are there from the start; clients may make more.
        public var channels: [Channel] = []
        public var behaviour = Behaviour()
        public var ledgerDetail = LedgerDetail.requests(keepsBodies: false)
        /// A file that gets one line per request, beside what is kept in memory.
        public var ledgerPath: String?

        public init(credentials: Credentials) {
            self.credentials = credentials
            providerKeys = [credentials.providerKey]
        }
    }

    /// A broadcast channel of an app.
    public struct Channel: Sendable, Equatable {
        public var app: String
        /// base64.
        public var id: String
        /// Keeps its latest message; one that does not takes broadcasts with an expiration of 0 alone.
        public var stores: Bool

        public init(app: String, id: String, stores: Bool = true) {
            self.app = app
            self.id = id
            self.stores = stores
        }
    }

    enum Order: Sendable {
        case stop
        /// All orders before this one are carried out.
        case confirm(Mailbox<Void>)
        case behave(Behaviour)
        case plan(token: String, [Answer])
        case goAway(GoAway, then: GoAway?)
        case closeConnections(isReset: Bool)
        case advanceClock(seconds: Int64)
    }

    public let ledger = Ledger()
    /// The port it got, also when 0 was asked for.
    public let port: Int
    private let orders = Mailbox<Order>()
    private let behaviour: Locked<Behaviour>
    private let thread: JoinOnce

    /// Listens when it returns.
    public init(_ configuration: Configuration) throws(SimulatorError) {
        behaviour = Locked(configuration.behaviour)
        let started = Mailbox<Result<Int, SimulatorError>>()
        let orders = orders
        let ledger = ledger
        do throws(ThreadError) {
            thread = JoinOnce(
                try OwnedThread(name: "apns-simulator") {
                    blockSignals()
                    do throws(SimulatorError) {
                        let loop = try ServerLoop(configuration, orders, ledger)
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
        case nil: preconditionFailure("the loop above ends with an outcome")
        }
    }

    deinit { stop() }

    /// Closes every connection and joins the thread. The ledger stays. Calling it again does nothing.
    public func stop() {
        orders.send(.stop)
        thread.join()
    }

    /// Changes how it behaves. Holds for every request that is sent after this returns.
    public func behave(_ change: (inout Behaviour) -> Void) {
        // Sent inside of the lock, so that two changes arrive in the order they were made.
        behaviour.withLock { behaviour in
            change(&behaviour)
            orders.send(.behave(behaviour))
        }
        waitForOrders()
    }

    /// The next valid requests for `token`, a device's or a channel's id, get these answers in turn, then what the script says. Replaces what was left
    /// of an earlier plan.
    public func plan(token: String, answers: [Answer]) {
        orders.send(.plan(token: token, answers))
        waitForOrders()
    }

    /// The thread may be in the middle of a turn, and answer requests that reach it after an order was sent as if there were none. One
    /// that is stopped carries out nothing more, and is not waited for.
    private func waitForOrders() {
        let confirmed = Mailbox<Void>()
        orders.send(.confirm(confirmed))
        var poller = Poller()
        let latest = Instant.now + Simulator.orderPatience
        while confirmed.drain().isEmpty && !thread.isJoined && Instant.now < latest {
            poller.reset()
            poller.add(confirmed.wakeDescriptor, for: .read)
            poller.wait(until: latest)
        }
    }

    /// A thread that does not get round to its orders for so long was stopped meanwhile.
    private static let orderPatience = Duration.seconds(10)

    /// Says GOAWAY on every open connection. `belowThis` means all that were begun.
    ///
    /// - Parameter next: follows, as behind an answer: at once, or `GoAway.followUp` after a graceful notice.
    public func goAway(_ frame: GoAway = GoAway(), then next: GoAway? = nil) { orders.send(.goAway(frame, then: next)) }

    /// Ends every connection, with RST or in good order, whatever is unanswered.
    public func closeConnections(isReset: Bool = true) { orders.send(.closeConnections(isReset: isReset)) }

    /// Lets provider tokens age by so many seconds; negative makes them younger.
    public func advanceClock(seconds: Int64) { orders.send(.advanceClock(seconds: seconds)) }

    /// The counters so far.
    public var totals: Totals { ledger.totals }
}
