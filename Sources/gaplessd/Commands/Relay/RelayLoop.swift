import Glibc
import PushPool
import RedisQueue
import Sockets
import SystemTime
import Threads

/// Reads results from the consumer group, posts them, and acknowledges what the receiver has accepted, until a signal.
struct RelayLoop: ~Copyable {
    private let settings: Settings
    private let stream: String
    private var client: RelayClient
    private var signals: SignalInbox
    private let log: Log
    /// Shorter than the time after which other relays take over a batch.
    private let backoff: Backoff
    private var isStopped = false
    private var hasConnected = false

    init(
        _ settings: Settings, stream: String, _ client: consuming RelayClient, _ signals: consuming SignalInbox, _ log: Log
    ) {
        (self.settings, self.stream, self.log) = (settings, stream, log)
        self.client = client
        self.signals = signals
        backoff = Backoff(first: min(.milliseconds(500), settings.redis.lease / 4), most: settings.redis.lease / 3)
    }

    /// A Redis that is lost is awaited; one that refuses at the start ends the call.
    consuming func run() throws {
        var failures = 0
        while !isStopped {
            let fault: ProbeError
            do {
                var group = ResultsGroup(
                    try RedisAccess.connect(settings), stream: stream, consumer: Self.consumer, minIdleTime: settings.redis.lease)
                try group.create()
                (hasConnected, failures) = (true, 0)
                try relay(&group)
                try group.leave()
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
            if failures == 1 { log.warning("Redis: \(fault). Results stay in the stream; trying again.", .redisLost) }
            pause(backoff.wait(afterFailures: failures, random: .random(in: 0..<1)))
        }
    }

    /// A name that no other relay has.
    private static let consumer = "relay-\(getpid())-\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"

    private mutating func relay(_ group: inout ResultsGroup) throws {
        while true {
            readSignals()
            if isStopped { return }
            let (entries, trimmed) = try group.next()
            if trimmed > 0 {
                log.warning(
                    "\(trimmed.counted("result")) left the stream before a receiver had them: raise redis_results_max.",
                    .resultsTrimmed)
            }
            if !entries.isEmpty, try post(entries, &group) { try group.acknowledge(entries) }
        }
    }

    /// Posts until the receiver accepts. Returns `false` if a signal ends it: another relay takes over.
    private mutating func post(_ entries: [RelayEntry], _ group: inout ResultsGroup) throws -> Bool {
        let body = RelayEntry.body(entries)
        var failures = 0
        while true {
            let problem: String
            do throws(SocketError) {
                let status = try client.post(body)
                if 200..<300 ~= status {
                    if failures > 0 { log.info("relay_url accepts results again.", .relayRecovered) }
                    return true
                }
                problem = "response \(status)"
            } catch {
                problem = error.description
            }
            failures += 1
            let wait = backoff.wait(afterFailures: failures, random: .random(in: 0..<1))
            if failures == 1 {
                log.warning(
                    "relay_url: \(problem). \(entries.count.counted("result")) not delivered; trying again with backoff.",
                    .relayFailing)
            }
            pause(wait)
            if isStopped {
                try group.release(entries)
                return false
            }
            try group.keep(entries)
        }
    }

    private mutating func readSignals() {
        while let signal = signals.next() { if signal == .stop { isStopped = true } }
    }

    /// Sleeps, or returns early for a signal to stop.
    private mutating func pause(_ time: Duration) {
        let end = Instant.now + time
        var poller = Poller()
        while !isStopped, .now < end {
            poller.reset()
            poller.add(signals.descriptor, for: .read)
            poller.wait(until: end)
            readSignals()
        }
    }
}
