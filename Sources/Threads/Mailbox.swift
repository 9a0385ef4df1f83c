/// A queue into one thread. Senders hand over whole batches: one lock each, and one wake-up only when it was empty.
///
/// It has no bound of its own; whoever sends keeps one (a pool never holds more than its credit), so that nothing ever
/// blocks inside a send.
public final class Mailbox<Element: Sendable>: Sendable {
    @usableFromInline let waiting = Locked<[Element]>([])
    @usableFromInline let wakeUp: WakeUp

    /// - Parameter wakeUp: shared with other mailboxes of the same thread, if it has several.
    public init(wakeUp: WakeUp = WakeUp()) {
        self.wakeUp = wakeUp
    }

    /// Readable while something waits. The receiver sleeps on it.
    public var wakeDescriptor: CInt { wakeUp.descriptor }

    @inlinable
    public func send(_ element: Element) {
        let wasEmpty = waiting.withLock { waiting in
            waiting.append(element)
            return waiting.count == 1
        }
        if wasEmpty { wakeUp.ring() }
    }

    /// Hands over `batch` in order and leaves it empty, with its memory, for the next one.
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

    /// Everything that waits, oldest first, in `batch`, whose former content is dropped and whose memory is used again.
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
