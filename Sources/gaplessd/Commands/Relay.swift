import ArgumentParser
import Glibc
import Platform
import PushPool
import RedisQueue

/// `gaplessd relay`: posts results to `relay_url`.
struct Relay: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay",
        abstract: "Posts the entries of redis_results_key to relay_url until SIGTERM or SIGINT.",
        discussion: """
            Each request is a JSON array of results. With relay_secret, the header X-Gapless-Signature contains \
            'sha256=' and the HMAC-SHA256 of the body; relay_headers adds headers. A response of 2xx acknowledges the batch; \
            after any other response, or none, it is sent again with backoff, and in halves if it was too large or too slow. \
            Each result is delivered at least once. Several relays share the work.

            A result that the receiver refuses alone in \(RelayPlan.mostAttempts) attempts, while it accepts others, is set \
            aside in the list {Q}:gapless:refused of the first list, and logged.

            Exit status: 0 after a signal, 64 wrong usage, 78 a fault in the settings, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument
    @Flag(help: "Log in JSON, as log_format does.") var json = false

    func run() throws {
        let settings = try file.loadSettings()
        var missing: [SettingsError] = []
        if settings.relay.url == nil {
            missing.append(SettingsError(key: "relay_url", problem: "required key is missing", expected: RelayURL.expected))
        }
        if settings.redis.resultsKey == nil {
            missing.append(
                SettingsError(
                    key: "redis_results_key", problem: "required key is missing",
                    expected: "the stream to which the daemon writes results"))
        }
        guard let url = settings.relay.url, let stream = settings.redis.resultsKey else {
            throw file.reported(SettingsErrors(file: file.settings, faults: missing))
        }
        // Before the first thread, which is the log's: threads inherit the signal mask.
        let signals = try SignalInbox()
        let log = try Log(format: json ? .json : settings.log.format, level: settings.log.level)
        defer { log.close() }
        let client: RelayClient
        do throws(TLSError) {
            let tls = url.isSecure ? try TLSContext(clientTrusting: nil, identity: nil, protocols: []) : nil
            client = RelayClient(url, secret: settings.relay.secret, headers: settings.relay.headers ?? [], tls: tls)
        } catch {
            throw ProbeError.failed("\(error)").told("relay")
        }
        log.info("gaplessd \(gaplessdVersion) relay started: \(stream) to \(url.shown).", .relayStarted)
        try RelayLoop(settings, stream: stream, client, signals, log).run()
        log.info("Relay stopped.", .relayStopped)
    }
}

/// Reads results from the consumer group, posts them, and acknowledges what the receiver has accepted, until a signal.
struct RelayLoop: ~Copyable {
    /// The longest time in which nothing shows a signal: Redis waits for new entries.
    private static let mostWait = Duration.milliseconds(500)

    /// Watches signals and renews the lease of the entries during a post.
    private struct Pulse: ~Copyable {
        /// The time that a post still has after a signal to stop.
        private static let grace = Duration.milliseconds(300)

        private var signals: SignalInbox
        private let interval: Duration
        private var due = Instant.now
        private var end: Instant?

        init(_ signals: consuming SignalInbox, lease: Duration) {
            self.signals = signals
            interval = lease / 3
        }

        var isStopped: Bool { end != nil }

        mutating func readSignals() {
            while let signal = signals.next() { if signal == .stop, end == nil { end = .now + Self.grace } }
        }

        /// Whether the lease of the entries is to be renewed now.
        mutating func mustRenew() -> Bool {
            guard due <= .now else { return false }
            due = .now + interval
            return true
        }

        /// Runs while a post waits. The post goes on without Redis: other relays do not get its entries either.
        mutating func beat(_ ids: [String], _ group: inout ResultsGroup) throws(SocketError) {
            readSignals()
            if let end, end <= .now { throw .refused("the relay stops") }
            if mustRenew() { try? group.keep(ids) }
        }

        /// Sleeps, or returns early for a signal to stop.
        mutating func pause(until wakeUp: Instant) {
            var poller = Poller()
            while !isStopped, .now < wakeUp {
                poller.reset()
                poller.add(signals.descriptor, for: .read)
                poller.wait(until: wakeUp)
                readSignals()
            }
        }
    }

    private let settings: Settings
    private let stream: String
    private let log: Log
    private let backoff: Backoff
    private var client: RelayClient
    private var pulse: Pulse
    private var plan: RelayPlan
    private var hasConnected = false
    /// Whether the log has reported a failing receiver.
    private var isFailing = false

    init(
        _ settings: Settings, stream: String, _ client: consuming RelayClient, _ signals: consuming SignalInbox, _ log: Log
    ) {
        (self.settings, self.stream, self.log) = (settings, stream, log)
        self.client = client
        pulse = Pulse(signals, lease: settings.redis.lease)
        backoff = Backoff(first: min(.milliseconds(500), settings.redis.lease / 4), most: settings.redis.lease / 3)
        plan = RelayPlan(backoff: backoff, timeout: RelayClient.timeout)
    }

    /// A Redis that is lost is awaited; one that refuses at the start ends the call. A connection that Redis closed, for example
    /// during a long post, is replaced silently.
    consuming func run() throws {
        var failures = 0
        while !pulse.isStopped {
            let fault: ProbeError
            do {
                var group = ResultsGroup(
                    try RedisAccess.connect(settings), stream: stream, keys: Keys(list: settings.lists[0]),
                    consumer: Self.consumer, minIdleTime: settings.redis.lease)
                let isNew = try group.create()
                hasConnected = true
                try group.acknowledge(plan.accepted)
                plan.acknowledged()
                if !isNew { plan.keepOnly(try group.owned(plan.ids)) }
                failures = min(failures, 1)
                try relay(&group)
                try group.leave(plan.ids)
                return
            } catch let error as ProbeError {
                fault = error
            } catch let error as RedisError {
                fault =
                    hasConnected || !error.isRefusal
                    ? ProbeError(error, of: settings) : .refused(settings, RedisAccess.faults(behind: error, settings))
            }
            if !hasConnected && fault.isOurs { throw fault.told("redis") }
            failures += 1
            if hasConnected, failures == 1 { continue }
            if failures == (hasConnected ? 2 : 1) {
                log.warning("Redis: \(fault). Results stay in the stream; trying again.", .redisLost)
            }
            pulse.pause(until: .now + backoff.wait(afterFailures: failures, random: .random(in: 0..<1)))
        }
    }

    /// A name that no other relay has.
    private static let consumer = "relay-\(getpid())-\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"

    private mutating func relay(_ group: inout ResultsGroup) throws {
        while true {
            pulse.readSignals()
            try group.acknowledge(plan.accepted)
            plan.acknowledged()
            try setAside(&group)
            if pulse.isStopped { return }
            if pulse.mustRenew() { try group.keep(plan.ids) }
            try read(&group)
            let batch = plan.next(now: .now)
            if !batch.isEmpty {
                post(batch, &group)
            } else if plan.room == 0 {
                pulse.pause(until: plan.due ?? .now)
            }
        }
    }

    private mutating func read(_ group: inout ResultsGroup) throws {
        let room = plan.room
        if room == 0 { return }
        let wait = min(Self.mostWait, max(.zero, (plan.due ?? .now + Self.mostWait) - .now))
        let (entries, trimmed) = try group.next(most: room, wait: Int(wait / .milliseconds(1)))
        if trimmed > 0 {
            log.warning(
                "\(trimmed.logged("result")) left the stream before a receiver had them: raise redis_results_max.",
                .resultsTrimmed)
        }
        plan.received(entries)
    }

    private mutating func setAside(_ group: inout ResultsGroup) throws {
        if plan.refused.isEmpty { return }
        for refused in plan.refused {
            guard let count = try group.setAside(refused, at: WallClock.now().unixSeconds) else { continue }
            log.warning(
                "relay_url: \(refused.problem) to result \(refused.entry.id) alone, "
                    + "\(refused.attempts.logged("attempt")). It was set aside in \(Keys(list: settings.lists[0]).refused), "
                    + "which has \(Int(count).logged("result")).", .resultRefused)
        }
        plan.setAside()
    }

    private mutating func post(_ batch: [RelayEntry], _ group: inout ResultsGroup) {
        let ids = plan.ids
        let body = RelayEntry.body(batch)
        let start = Instant.now
        let outcome = Self.post(body, ids, &client, &pulse, &group)
        let (failure, problem): (RelayPlan.Failure, String)
        switch outcome {
        case .response(let status) where 200..<300 ~= status:
            if isFailing { log.info("relay_url accepts results again.", .relayRecovered) }
            isFailing = false
            return plan.accepted(after: .now - start)
        case .response(let status): (failure, problem) = (.init(status: status), "response \(status)")
        case .slow(let error): (failure, problem) = (.slow, error.description)
        case .lost(let error): (failure, problem) = (.other, error.description)
        }
        if pulse.isStopped { return }
        let wait = plan.failed(failure, problem, now: .now)
        // Without a wait the plan looks for the result at fault: the log names that one.
        if !isFailing && wait > .zero {
            isFailing = true
            log.warning(
                "relay_url: \(problem). \(batch.count.logged("result")) not delivered; trying again with backoff.",
                .relayFailing)
        }
        pulse.pause(until: .now + wait)
    }

    /// Not a method: the closure needs exclusive access to the parts.
    private static func post(
        _ body: [UInt8], _ ids: [String], _ client: inout RelayClient, _ pulse: inout Pulse, _ group: inout ResultsGroup
    ) -> RelayClient.Outcome {
        client.post(body) { () throws(SocketError) in try pulse.beat(ids, &group) }
    }
}
