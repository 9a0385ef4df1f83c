internal import PushPool

/// The pool as the machine sees it: its streams, the number of sends in it, and the notifications that follow.
struct PoolState {
    /// Beyond the streams, so that sessions find work at once.
    private static let batch = 250

    private var capacity = 0
    private var count = 0
    private var outgoing: [Notification] = []
    /// The reason why the last dial failed; `nil` while a session is open.
    private var dialError: String?

    var isEmpty: Bool { count == 0 }

    /// The error text of a send that no session could take; `nil` if there are sessions.
    var unreachable: String? {
        capacity > 0 ? nil : "no session to APNs is open" + (dialError.map { " (\($0))" } ?? "")
    }

    /// - Parameter capacity: the streams that the open sessions may have open in total.
    mutating func observed(capacity: Int) { self.capacity = capacity }
    mutating func opened() { dialError = nil }
    mutating func dialFailed(_ text: String) { dialError = text }

    /// - Parameter allowance: of the circuit breaker.
    func hasRoom(allowance: Int) -> Bool { count < min(capacity + min(capacity, Self.batch), allowance) }

    mutating func add(_ notification: Notification) {
        count += 1
        outgoing.append(notification)
    }

    /// A send has left the pool.
    mutating func removed() { count -= 1 }

    /// Moves the notifications that may go out to `batch`, which is empty.
    mutating func takeOutgoing(into batch: inout [Notification]) { swap(&outgoing, &batch) }
}
