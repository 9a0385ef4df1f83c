import Platform
import RedisQueue

/// Decides how the daemon stops.
///
/// The first stop signal drains: nothing new is claimed or sent, and requests on streams get their responses, at most until
/// `drain_timeout`. Then the pools close, every job that is still held goes back, and the lists confirm their last settlements.
///
///     phase      fact                                     next       step
///     running    stop signal                              draining   .drain
///     draining   nothing held, or the timeout             stopping   .closePools
///     draining   stop signal, at_least_once               stopped    .leave: Redis keeps the jobs for the next process
///     draining   stop signal, at_most_once                stopping   .closePools, forced: Redis has no copy of the jobs
///     stopping   every list has stopped                   stopped    .finish
///     stopping   `confirmationTimeout`                    stopped    .giveUp
///     stopping   stop signal, at_least_once               stopped    .leave
struct Shutdown {
    enum Phase: Equatable {
        case running, draining, stopping, stopped
    }

    enum Step: Equatable {
        case drain
        case leave
        case closePools(isForced: Bool)
        case finish
        case giveUp
    }

    /// The time within which the pools close and the lists confirm the last settlements. With `LogWriter.closingTimeout` the
    /// exit takes less than five seconds after `drain_timeout`.
    static let confirmationTimeout = Duration.seconds(3)

    private(set) var phase = Phase.running
    private(set) var deadline: Instant?

    var isRunning: Bool { phase == .running }

    mutating func stopSignalReceived(timeout: Duration, _ delivery: QueueSettings.DeliveryMode, now: Instant) -> Step? {
        switch (phase, delivery) {
        case (.running, _): return enter(.draining, until: now + timeout, .drain)
        case (.draining, .atLeastOnce), (.stopping, .atLeastOnce): return enter(.stopped, until: nil, .leave)
        case (.draining, .atMostOnce): return closePools(isForced: true, now: now)
        case (.stopping, .atMostOnce), (.stopped, _): return nil
        }
    }

    mutating func tick(now: Instant, held: Int) -> Step? {
        let isDue = deadline.map { $0 <= now } ?? false
        switch phase {
        case .draining where held == 0 || isDue: return closePools(isForced: false, now: now)
        case .stopping where isDue: return enter(.stopped, until: nil, .giveUp)
        case .running, .draining, .stopping, .stopped: return nil
        }
    }

    mutating func everyListStopped() -> Step? {
        phase == .stopping ? enter(.stopped, until: nil, .finish) : nil
    }

    private mutating func closePools(isForced: Bool, now: Instant) -> Step {
        enter(.stopping, until: now + Self.confirmationTimeout, .closePools(isForced: isForced))
    }

    private mutating func enter(_ next: Phase, until deadline: Instant?, _ step: Step) -> Step {
        (phase, self.deadline) = (next, deadline)
        return step
    }
}
