import Clocks
import PushPool
import RedisQueue
import Threads

/// SIGTERM: claim nothing, wait for what is on the wire, give the rest back.
extension Dispatcher {
    /// The first signal drains; a second one leaves at once.
    mutating func beginDrainOrLeave() {
        guard phase == .running else { return leave() }
        phase = .draining(until: now + plan.drainTimeout)
        log.info("Draining: \(held.count.counted("job")) in flight, at most \(plan.drainTimeout.roundedSeconds) s.")
        for app in apps.indices { takeBack(app: app) }
        for number in held.numbers(where: { $0.suspectAnswer != nil }) { release(number) }
    }

    /// What is in flight stays in Redis, under this worker's name, and the next process takes it over. With `at_most_once` Redis has
    /// none of it: then it goes back to the list first, and a third signal changes nothing.
    private mutating func leave() {
        let jobs = held.count.counted("job")
        guard settings.redis.delivery == .atLeastOnce else {
            guard case .draining = phase else { return }
            log.warning("Leaving at once: \(jobs) in flight go back to the list.")
            return closePools()
        }
        log.warning("Leaving at once: what is in flight (\(jobs)) stays in Redis, and the next gaplessd takes it over.")
        phase = .stopped
    }

    mutating func keepShutdownTime() {
        switch phase {
        case .draining(let until) where held.count == 0 || now >= until: closePools()
        case .stopping(let until) where now >= until:
            let rest =
                settings.redis.delivery == .atLeastOnce
                ? "the next gaplessd takes over what is in flight" : "with at_most_once, jobs that were to go back may be lost"
            log.warning("Redis did not confirm the last settlements; \(rest).")
            phase = .stopped
        default: break
        }
    }

    /// The lists have confirmed everything: there is nothing more to wait for.
    mutating func noticeStopped() {
        guard case .stopping = phase, lists.allSatisfy(\.isStopped) else { return }
        log.info("Stopped: \(counters).")
        phase = .stopped
    }

    /// Whatever is still on the wire is given back: APNs may have it, and so it counts as `maybe_duplicate`.
    private mutating func closePools() {
        for app in apps {
            for number in app.pool.close() { release(number) }
        }
        phase = .stopping(until: now + Self.stoppingTimeout)
        for delivery in deliveries.drain() { ended(delivery) }
        logSent()
        for number in held.numbers(where: { _ in true }) { release(number) }
        for list in lists { list.queue.stop() }
    }
}
