import Platform
import PushPool

/// Sessions to the channel management API, one for each app with a call, closed after a minute without one.
struct ManagementSessions {
    private static let idleTimeout = Duration.seconds(60)

    private struct Session {
        let pool: SessionPool
        let events: Mailbox<PoolEvent>
        var lastUse: Instant
        var calls = 0
    }

    private struct Call {
        let call: ChannelCall
        let app: String
        let deadline: Instant
    }

    private var sessions: [String: Session] = [:]
    private var calls: [UInt64: Call] = [:]
    private var next: UInt64 = 0

    /// Starts a call and returns its number. The outcome goes to `outcomes`, or is one of `expire`.
    mutating func start(
        _ action: ChannelCall.Action, for app: Settings.App, _ outcomes: Mailbox<Delivery>, now: Instant
    ) throws(ChannelCall.Failure) -> UInt64 {
        guard let topic = app.defaultTopic, let call = ChannelCall(action, topic: topic) else {
            throw .notProcessed("the app has no bundle ID as its topic")
        }
        let name = app.name ?? ""
        if sessions[name] == nil { sessions[name] = try open(app, outcomes, now: now) }
        next += 1
        calls[next] = Call(call: call, app: name, deadline: now + app.channelTimeout)
        sessions[name]?.calls += 1
        var batch = [call.request(id: next)]
        sessions[name]?.pool.push(&batch)
        return next
    }

    private func open(
        _ app: Settings.App, _ outcomes: Mailbox<Delivery>, now: Instant
    ) throws(ChannelCall.Failure) -> Session {
        guard let credential = app.credential else { throw .notProcessed("the credential cannot be used") }
        do {
            let events = try Mailbox<PoolEvent>(thread: "apns pool")
            let pool = try SessionPool(
                settings: app.managementPool, credential: credential, deliveries: outcomes, events: events)
            return Session(pool: pool, events: events, lastUse: now)
        } catch {
            throw .notProcessed("\(error)")
        }
    }

    /// A call has ended. Returns it, unless it has expired before.
    mutating func ended(_ id: UInt64, _ outcome: Outcome, now: Instant) -> ChannelCall? {
        guard let call = calls.removeValue(forKey: id) else { return nil }
        sessions[call.app]?.calls -= 1
        sessions[call.app]?.lastUse = now
        _ = sessions[call.app]?.events.drain()
        return call.call
    }

    /// Withdraws the calls that have waited for too long, and closes sessions that are not used. Returns their outcomes.
    mutating func expire(now: Instant) -> [(id: UInt64, outcome: Outcome)] {
        var expired: [(id: UInt64, outcome: Outcome)] = []
        for (id, call) in calls where call.deadline <= now {
            let isWithdrawn = sessions[call.app]?.pool.cancel([id]).isEmpty == false
            expired.append((id, isWithdrawn ? .notProcessed(.connectionLost(reason(of: call.app))) : .timedOut))
        }
        for (name, session) in sessions where session.calls == 0 && session.lastUse + Self.idleTimeout <= now {
            session.pool.stop()
            sessions[name] = nil
        }
        return expired
    }

    /// Why no session took a call.
    private func reason(of app: String) -> String {
        for event in (sessions[app]?.events.drain() ?? []).reversed() {
            switch event {
            case .dialFailed(_, let address, let error, _), .closed(_, let address, let error): return "\(address): \(error.text)"
            default: continue
            }
        }
        return "no session in time"
    }

    /// Ends all sessions, or those of one app: new calls open others, with the present settings.
    mutating func close(app: String? = nil) {
        for (name, session) in sessions where app == nil || name == app {
            session.pool.stop()
            sessions[name] = nil
        }
        for (id, call) in calls where app == nil || call.app == app {
            calls[id] = Call(call: call.call, app: call.app, deadline: .now)
        }
    }

    var deadline: Instant? {
        var next = Earliest(nil)
        for call in calls.values { next.consider(call.deadline) }
        for session in sessions.values where session.calls == 0 { next.consider(session.lastUse + Self.idleTimeout) }
        return next.instant
    }
}
