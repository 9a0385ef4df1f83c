internal import Platform
internal import PushPool

/// Creates, shows, lists and deletes the broadcast channels of an app, through the channel management API of APNs.
///
/// It keeps one HTTP/2 session from its first call to ``shutdown()``, or to the end of its last reference. Nothing is repeated: a
/// creation whose response is lost may have made a channel.
public final class APNSChannels: Sendable {
    /// Whether APNs stores messages of a channel for devices that are offline. It cannot be changed later.
    public enum Storage: String, Sendable, CaseIterable {
        /// Nothing is stored, and a push must have the expiration ``Push/Expiration/once``.
        case none
        /// The latest message, for at most eight hours.
        case latest
    }

    private let calls: ChannelCalls
    private let topic: String

    /// Checks the configuration and its credential. It opens no connection.
    ///
    /// - Parameter configuration: that of the client. ``APNSConfiguration/managementServer`` names the server.
    /// - Throws: ``APNSError`` with the cause ``APNSError/Cause/invalid``.
    public init(_ configuration: APNSConfiguration) throws(APNSError) {
        let credential = try configuration.authentication.credential(tokenFolder: configuration.tokenFolder)
        guard let topic = configuration.topic ?? credential.certificate?.defaultTopic,
            ChannelCall(.list, topic: topic) != nil
        else { throw .invalid("the configuration names no bundle id as its topic") }
        self.topic = topic
        let settings = try configuration.managementSettings()
        do throws(CredentialError) {
            calls = ChannelCalls(
                try SessionPool.Setup(settings: settings, credential: credential),
                timeout: settings.dialTimeout + settings.requestTimeout)
        } catch { throw .invalid(error.description) }
    }

    deinit { calls.stop() }

    /// Creates a channel and returns its id.
    public func create(storage: Storage) async throws(APNSError) -> String {
        let reply = try await reply(to: .create(storage == .latest ? .latest : .none))
        guard case .created(let id) = reply else { throw .malformedResponse }
        return id
    }

    /// Returns the storage of a channel; `nil` if APNs has no such channel.
    public func storage(of id: String) async throws(APNSError) -> Storage? {
        do throws(APNSError) {
            let reply = try await reply(to: .read(try Self.checked(id)))
            guard case .found(let storage) = reply else { throw .malformedResponse }
            return storage == .latest ? Storage.latest : Storage.none
        } catch {
            if error.isMissingChannel { return nil }
            throw error
        }
    }

    /// Returns the ids of all channels of the app in the environment of the server, at most 10,000.
    public func list() async throws(APNSError) -> [String] {
        guard case .list(let ids) = try await reply(to: .list) else { throw .malformedResponse }
        return ids
    }

    /// Deletes a channel with its subscriptions. A channel that APNs does not have is deleted already.
    public func delete(_ id: String) async throws(APNSError) {
        do throws(APNSError) {
            _ = try await reply(to: .delete(try Self.checked(id)))
        } catch {
            if !error.isMissingChannel { throw error }
        }
    }

    /// Closes the session. Calls in progress, and later ones, fail with the cause ``APNSError/Cause/shutDown``.
    public func shutdown() { calls.stop() }

    private static func checked(_ id: String) throws(APNSError) -> String {
        guard ChannelCall.isID(id) else { throw .invalid("the channel is not 1 to 1000 characters of base64") }
        return id
    }

    private func reply(to action: ChannelCall.Action) async throws(APNSError) -> ChannelCall.Reply {
        guard let call = ChannelCall(action, topic: topic) else { throw .invalid("the topic is no bundle id") }
        guard let outcome = await calls.outcome(of: call) else {
            throw APNSError(.shutDown, .maybeSent, "the channels were shut down")
        }
        do throws(ChannelCall.Failure) {
            return try call.reply(outcome)
        } catch { throw APNSError(error) }
    }
}

/// The session of the channels, and the thread that receives its outcomes.
final class ChannelCalls: Sendable {
    private struct Call {
        let continuation: CheckedContinuation<Outcome?, Never>
        let deadline: Instant
    }

    private struct State {
        var pool: SessionPool?
        var calls: [UInt64: Call] = [:]
        var next: UInt64 = 0
        var isStopped = false
    }

    private let setup: SessionPool.Setup
    private let timeout: Duration
    private let state = Locked(State())
    private let deliveries = Mailbox<Delivery>()
    private let events = Mailbox<PoolEvent>()

    init(_ setup: SessionPool.Setup, timeout: Duration) { (self.setup, self.timeout) = (setup, timeout) }

    /// Sends a request and waits for its outcome; `nil` after `stop`.
    func outcome(of call: ChannelCall) async -> Outcome? {
        await withCheckedContinuation { continuation in
            let isSubmitted = state.withLock { state -> Bool in
                guard let pool = open(&state) else { return false }
                state.next += 1
                state.calls[state.next] = Call(continuation: continuation, deadline: .now + timeout)
                var batch = [call.request(id: state.next)]
                pool.push(&batch)
                return true
            }
            if isSubmitted { wake() } else { continuation.resume(returning: nil) }
        }
    }

    private func open(_ state: inout State) -> SessionPool? {
        if state.isStopped { return nil }
        if let pool = state.pool { return pool }
        guard let pool = try? SessionPool(setup, deliveries: deliveries, events: events) else { return nil }
        state.pool = pool
        // It ends after `stop`, which the owner calls at its end.
        do throws(ThreadError) {
            let thread = try OwnedThread(name: "apns channels") { [self] in while turn() {} }
            thread.leave()
        } catch { state.pool = nil }
        return state.pool
    }

    /// Interrupts the wait of the thread: it learns the deadline of a new call, or that it must end.
    private func wake() { deliveries.send(Delivery(id: 0, session: SessionID(0), outcome: .outdated)) }

    /// Passes outcomes on, and ends calls that have waited for too long. Returns false after `stop`.
    private func turn() -> Bool {
        let deadline = state.withLock { state in state.isStopped ? nil : Earliest(of: state.calls.values.map(\.deadline)) }
        guard let deadline else { return false }
        var poller = Poller()
        poller.add(deliveries.wakeDescriptor, for: .read)
        poller.wait(until: deadline.instant)
        var ended: [(Call, Outcome)] = []
        let arrived = deliveries.drain()
        state.withLock { state in
            for delivery in arrived {
                if let call = state.calls.removeValue(forKey: delivery.id) { ended.append((call, delivery.outcome)) }
            }
            for (id, call) in state.calls where call.deadline <= .now {
                state.calls[id] = nil
                let isWithdrawn = state.pool?.cancel([id]).isEmpty == false
                ended.append((call, isWithdrawn ? .notProcessed(.connectionLost(lastFault())) : .timedOut))
            }
        }
        for (call, outcome) in ended { call.continuation.resume(returning: outcome) }
        return true
    }

    private func lastFault() -> String {
        for event in events.drain().reversed() {
            switch event {
            case .dialFailed(_, let address, let error, _), .closed(_, let address, let error): return "\(address): \(error.text)"
            default: continue
            }
        }
        return "no session was open in time"
    }

    func stop() {
        let (pool, calls) = state.withLock { state in
            defer { (state.isStopped, state.pool, state.calls) = (true, nil, [:]) }
            return (state.pool, state.calls)
        }
        pool?.stop()
        wake()
        for call in calls.values { call.continuation.resume(returning: nil) }
    }
}

extension Earliest {
    fileprivate init(of instants: [Instant]) {
        self.init(nil)
        for instant in instants { consider(instant) }
    }
}

extension APNSError {
    fileprivate static var malformedResponse: APNSError {
        APNSError(.rejected, .maybeSent, "the response is not that of the channel management API")
    }

    fileprivate init(_ failure: ChannelCall.Failure) {
        switch failure {
        case .rejected(let rejection):
            self.init(.rejected, .rejected, rejection.text)
            add(rejection)
        case .notProcessed(let text): self.init(.unreachable, .notSent, text)
        case .maybeProcessed(let text): self.init(.noResponse, .maybeSent, text)
        case .malformed: self = .malformedResponse
        }
        attempts = 1
    }

    /// Adds the response of APNs.
    mutating func add(_ rejection: Rejection) {
        response = Response(
            status: rejection.status, reason: rejection.reason, apnsID: rejection.apnsID, timestamp: rejection.timestamp)
        retryAfter = rejection.retryAfter
    }

    fileprivate var isMissingChannel: Bool { ChannelCall.reasonsOfMissingChannel.contains(response?.reason ?? "") }
}
