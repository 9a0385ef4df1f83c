import Platform

/// The turns of one simulated thread: each at the earliest time for which it was asked.
final class Ticker {
    private let world: World
    private var due = Int64.max
    private var token = 0
    /// No turn before this time: the process is stopped, or the last turn takes until then.
    var notBefore: Int64 = 0
    private var body: () -> Void = {}

    init(_ world: World) { self.world = world }

    func onTurn(_ body: @escaping () -> Void) { self.body = body }

    func wake(at time: Int64) {
        let time = max(time, world.time, notBefore)
        if time >= due { return }
        due = time
        token += 1
        let own = token
        world.at(time) { [self] in if own == token { fire() } }
    }

    func wake(at instant: Instant?) {
        guard let instant else { return }
        let distance = instant - world.now
        // Rounded up: a turn before its deadline would find nothing to do.
        let wait = distance <= .zero ? 0 : Int64(clamping: (distance.attoseconds + 999_999_999) / 1_000_000_000)
        wake(at: world.time + min(wait, 1000 * .second))
    }

    func stop() {
        due = .max
        token += 1
        body = {}
    }

    private func fire() {
        due = .max
        if world.time < notBefore { return wake(at: notBefore) }
        body()
    }
}
