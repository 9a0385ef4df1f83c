import Platform

/// The jobs in the lists of recovered jobs, as far as this worker knows, and the isolation of those that need it.
///
/// A job that was in flight at three crashes is pushed alone. Under load a worker always holds jobs, so it stops claiming until
/// it holds none. The stop has a time limit, because the jobs that it holds may never be settled.
struct RecoveredJobs {
    /// The raw values are those of the scripts.
    enum Kind: Int64 {
        case none = 0
        case some = 1
        /// Only jobs that must be alone in their worker.
        case isolated = 2
    }

    private enum Isolation {
        case unneeded
        case awaited(until: Instant)
        case waived(until: Instant)
    }

    /// The time for which other claims wait for a job that must be alone, and then the time for which they do not wait.
    private static let isolationPeriod = Duration.seconds(30)

    var kind = Kind.none
    /// A claim has brought none of them: this worker holds as many twice-crashed jobs as it may.
    var isWithheld = false
    private var isolation = Isolation.unneeded

    /// Belongs before each claim.
    mutating func update(isHoldingJobs: Bool, now: Instant) {
        let next = now + RecoveredJobs.isolationPeriod
        switch isolation {
        case _ where kind != .isolated || !isHoldingJobs: isolation = .unneeded
        case .unneeded: isolation = .awaited(until: next)
        case .awaited(let until): if now >= until { isolation = .waived(until: next) }
        case .waived(let until): if now >= until { isolation = .awaited(until: next) }
        }
    }

    /// Whether claims wait until the worker holds nothing.
    func stopsClaims(isHoldingJobs: Bool, at now: Instant) -> Bool {
        if case .awaited(let until) = isolation { return kind == .isolated && isHoldingJobs && now < until }
        return false
    }

    /// Whether there is a recovered job that may be claimed now.
    func isClaimable(isHoldingJobs: Bool) -> Bool {
        if isHoldingJobs { kind == .some && !isWithheld } else { kind != .none }
    }

    var deadline: Instant? {
        switch isolation {
        case .unneeded: nil
        case .awaited(let until), .waived(let until): until
        }
    }
}
