/// A queue into one thread. Senders pass whole batches: one lock per batch, and one wake-up only if the queue was empty.
///
/// The queue itself is unbounded: its senders keep a bound (a pool never holds more than its credit), so that a send never
/// blocks.
public final class Mailbox<Element: Sendable>: Sendable {
    @usableFromInline let waiting = Locked<[Element]>([])
    @usableFromInline let wakeUp: WakeUp

    /// - Parameter wakeUp: for this mailbox alone. `drain` resets it, and the next wake-up follows only when an element meets an
    ///   empty queue: a second mailbox would lose it.
    public init(wakeUp: WakeUp = WakeUp()) {
        self.wakeUp = wakeUp
    }

    /// Throws if no descriptor is free.
    ///
    /// - Parameter name: of the thread that receives.
    public convenience init(thread name: String) throws(ThreadError) { self.init(wakeUp: try WakeUp(thread: name)) }

    /// Readable while elements wait. The receiver sleeps on it.
    public var wakeDescriptor: CInt { wakeUp.descriptor }

    @inlinable
    public func send(_ element: Element) {
        let wasEmpty = waiting.withLock { waiting in
            waiting.append(element)
            return waiting.count == 1
        }
        if wasEmpty { wakeUp.ring() }
    }

    /// Sends `batch` in order and leaves it empty, with its memory.
    @inlinable
    public func send(contentsOf batch: inout [Element]) {
        if batch.isEmpty { return }
        let wasEmpty = waiting.withLock { waiting in
            defer { batch.removeAll(keepingCapacity: true) }
            if waiting.isEmpty {
                swap(&waiting, &batch)
                return true
            }
            waiting.append(contentsOf: batch)
            return false
        }
        if wasEmpty { wakeUp.ring() }
    }

    /// Moves all waiting elements, oldest first, to `batch`, whose previous content is removed and whose memory is reused.
    @inlinable
    public func drain(into batch: inout [Element]) {
        batch.removeAll(keepingCapacity: true)
        wakeUp.listen()
        waiting.withLock { swap(&$0, &batch) }
    }

    @inlinable
    public func drain() -> [Element] {
        var batch: [Element] = []
        drain(into: &batch)
        return batch
    }
}
