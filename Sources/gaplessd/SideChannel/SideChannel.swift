import Platform
import PushPool
import RedisQueue

/// Work at Redis beside the delivery of jobs: a value of the side channel's thread.
protocol SideDuty: Sendable {
    /// Rung when there is work before the time of `due`; `nil` if the duty rings the wake-up of the side channel.
    var wanted: WakeUp? { get }

    /// Returns the time of the next step: a past one if there is work now, `nil` if there is none.
    ///
    /// - Parameter isWanted: whether `wanted` was rung since the last question.
    mutating func due(isWanted: Bool, now: Instant) -> Instant?

    /// Makes one step. A step is one call to Redis, so that no duty delays another one for longer than a timeout.
    ///
    /// - Parameter connection: the number of the connection. Another one may lead to another server.
    mutating func step(_ client: inout RedisClient, connection: Int) throws(RedisError)

    /// Redis did not reply to a step that was due, or refused it. The next step follows after a pause.
    mutating func failed(_ error: RedisError)

    /// Makes the last calls when the daemon stops, if there is a connection.
    mutating func finish(_ client: inout RedisClient, connection: Int) throws(RedisError)
}

extension SideDuty {
    func finish(_ client: inout RedisClient, connection: Int) throws(RedisError) {}
}

/// One thread and one connection to Redis for everything beside the delivery of jobs: shares of the fleet's limits, provider
/// tokens, this worker's records, and readings of the lists. A Redis that hangs blocks only this thread.
///
/// The duties run one after another, a step at a time, and the first one in order that is due runs next. After a failure of
/// the connection all duties pause; a duty that Redis refuses pauses alone.
final class SideChannel: Sendable {
    /// The limit of a dial, and of a reply.
    static let timeout = Duration.seconds(1)
    /// The wait after a failure.
    static let pause = Duration.milliseconds(500)
    /// The longest wait of `stop` for a thread that is waiting for Redis.
    private static let closingTimeout = Duration.milliseconds(100)

    private struct State {
        var settings: QueueSettings
        var tls: TLSContext?
        /// Grows with each change, so that the thread connects with the new settings.
        var version = 0
        var isStopped = false
    }

    /// For duties that have no wake-up of their own.
    let wakeUp: WakeUp
    private let state: Locked<State>
    private let limits: SharedRateLimits
    private let exchange: ProviderTokenExchange
    private let log: Log
    private let thread = Locked<JoinOnce?>(nil)

    init(_ configuration: Configuration, _ limits: SharedRateLimits, log: Log) throws(ThreadError) {
        wakeUp = try WakeUp(thread: "side channel")
        exchange = ProviderTokenExchange(wanted: try WakeUp(thread: "side channel"))
        (self.limits, self.log) = (limits, log)
        state = Locked(State(settings: configuration.settings.connection(timeout: Self.timeout), tls: configuration.redisTLS))
        for app in configuration.settings.apps { app.credential.map(share) }
        adopt(configuration)
    }

    /// Starts the thread.
    ///
    /// - Parameter others: duties that are less urgent than the fleet's limits and provider tokens, the most urgent first.
    func start(_ others: [any SideDuty]) throws(ThreadError) {
        let keys = state.withLock { Keys(list: $0.settings.list) }
        let duties: [any SideDuty] = [FleetLimits(limits, keys, log: log), FleetTokens(exchange, keys, log: log)] + others
        let thread = try JoinOnce(name: "side channel") { [state, wakeUp] in
            var loop = Loop(duties)
            while loop.turn(state, wakeUp) {}
        }
        self.thread.withLock { $0 = thread }
    }

    /// Adopts the settings, and replaces the connection. Cannot fail. Credentials are shared by themselves.
    func adopt(_ configuration: Configuration) {
        let fleet = configuration.settings.fleetLimits
        state.withLock { state in
            (state.settings, state.tls) = (configuration.settings.connection(timeout: Self.timeout), configuration.redisTLS)
            state.version += 1
        }
        limits.changeFleet(pushesPerSecond: fleet.pushesPerSecond, bitsPerSecond: fleet.bitsPerSecond)
        wakeUp.ring()
    }

    /// The tokens of this credential are shared with other machines.
    func share(_ credential: Credential) { credential.shareTokens(through: exchange) }

    /// Ends the thread. If it is waiting for Redis, it ends with the process.
    func stop() {
        state.withLock { $0.isStopped = true }
        wakeUp.ring()
        thread.withLock { $0 }?.join(atMost: Self.closingTimeout)
    }

    /// The thread.
    private struct Loop: ~Copyable {
        private var duties: [any SideDuty]
        /// For each duty, the end of its pause.
        private var rests: [Instant]
        /// Whether the wake-up of each duty was rung.
        private var isWanted: [Bool]
        private var client: RedisClient?
        /// The number of connections so far.
        private var connection = 0
        private var version = 0
        private var poller = Poller()

        init(_ duties: [any SideDuty]) {
            self.duties = duties
            rests = duties.map { _ in .now }
            isWanted = duties.map { _ in false }
        }

        /// Makes the next step, or sleeps until one is due. Returns false after `stop`.
        mutating func turn(_ state: Locked<State>, _ wakeUp: WakeUp) -> Bool {
            let current = state.withLock { $0 }
            if current.isStopped {
                finish()
                return false
            }
            let now = Instant.now
            if version != current.version {
                client = nil
                version = current.version
                for duty in duties.indices { rests[duty] = now }
            }
            var next = Earliest()
            var due: [Int] = []
            for duty in duties.indices {
                guard let time = duties[duty].due(isWanted: isWanted[duty], now: now) else { continue }
                next.consider(max(time, rests[duty]))
                if max(time, rests[duty]) <= now { due.append(duty) }
            }
            for duty in duties.indices { isWanted[duty] = false }
            if let first = due.first { step(first, due, current) } else { sleep(wakeUp, until: next.instant) }
            return true
        }

        private mutating func finish() {
            guard var kept = client.take() else { return }
            do throws(RedisError) {
                for duty in duties.indices { try duties[duty].finish(&kept, connection: connection) }
            } catch {}  // The lists report a failure of Redis.
        }

        private mutating func step(_ duty: Int, _ due: [Int], _ current: State) {
            do throws(RedisError) {
                try step(duty, current)
            } catch {
                // Without a connection every duty that is due has failed.
                for other in client == nil ? due : [duty] {
                    duties[other].failed(error)
                    rests[other] = .now + SideChannel.pause
                }
            }
        }

        /// Redis may have closed an idle connection, which alone is no failure: then the step is made on a new one.
        private mutating func step(_ duty: Int, _ current: State) throws(RedisError) {
            if var kept = client.take() {
                do throws(RedisError) {
                    try duties[duty].step(&kept, connection: connection)
                    client = consume kept
                    return
                } catch {
                    if error.keepsConnection {
                        client = consume kept
                        throw error
                    }
                }
            }
            connection += 1
            var new = try RedisClient(settings: current.settings, tls: current.tls)
            do throws(RedisError) {
                try duties[duty].step(&new, connection: connection)
            } catch {
                if error.keepsConnection { client = consume new }
                throw error
            }
            client = consume new
        }

        private mutating func sleep(_ wakeUp: WakeUp, until time: Instant?) {
            poller.reset()
            poller.add(wakeUp.descriptor, for: .read)
            let places = duties.map { duty in duty.wanted.map { poller.add($0.descriptor, for: .read) } }
            poller.wait(until: time)
            wakeUp.listen()
            for (duty, place) in places.enumerated() {
                guard let place, !poller.readiness(at: place).isEmpty else { continue }
                duties[duty].wanted?.listen()
                isWanted[duty] = true
            }
        }
    }
}

extension RedisError {
    /// Whether Redis has refused a call on a connection that serves others.
    fileprivate var keepsConnection: Bool {
        guard case .reply(let reply) = self else { return false }
        return switch reply.kind {
        case .rightMissing, .wrongType, .crossSlot, .outOfMemory, .unknownCommand, .clusterBusy: true
        default: false
        }
    }
}
