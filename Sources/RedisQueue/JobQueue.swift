public import Threads

/// One list, its jobs in flight, and the two connections that carry them; owned by one thread, which sleeps on its
/// descriptors and gives it turns. It reconnects for ever.
public struct JobQueue: ~Copyable {
    public init(settings: QueueSettings, version: String) { fatalError("written by the queue's author") }

    /// Adds the descriptors to sleep on.
    public mutating func addInterests(to poller: inout Poller) { fatalError() }

    /// When it wants its next turn at the latest.
    public var deadline: ContinuousClock.Instant? { fatalError() }

    /// Reads what came, decides, and writes all that this makes necessary with one write. Appends what the owner must know.
    public mutating func turn(_ poller: borrowing Poller, now: ContinuousClock.Instant, events: inout [QueueEvent]) { fatalError() }

    /// How many more jobs the owner could take right now. The queue claims up to that, at most 250 at a time, when
    /// it is worth a round trip (cadence of delivery.md section 5). 0 claims nothing.
    public mutating func offer(places: Int, now: ContinuousClock.Instant) { fatalError() }

    /// Hands over a job's end; sent with the batch it falls into.
    public mutating func settle(_ settlement: consuming Settlement) { fatalError() }

    /// Writes what is batched now and not at the end of its interval: little is in flight, or we are leaving.
    public mutating func flush() { fatalError() }

    /// Claims nothing any more; `.stopped` follows once every settlement is confirmed and the worker is unregistered.
    /// Whatever it still holds then is released first, to the head of the list in order.
    public mutating func stop() { fatalError() }
}
