import Platform
import RedisQueue

/// Walks a list of Redis in pages, or changes it in small steps.
///
/// A walk rests after each step, so that Redis can serve the daemons: in a long list, Redis needs a while to reach its middle.
struct PagedWalk {
    /// Steps in a row that may find that others have changed the list.
    private static let mostRetries = 1000

    /// The rest after a step, in times of the work of Redis. The time between two calls counts as rest.
    private let restFactor: Int
    /// The work of Redis since the last rest, and the end of the last call.
    private var worked = Duration.zero
    private var calledAt = Instant.now
    private var retries = 0
    /// The duration of the last call to Redis.
    private(set) var lastCall = Duration.zero

    /// - Parameter restFactor: less for a call that keeps others waiting, and 0 for one that reads little, or that its reader
    ///   slows down.
    init(restFactor: Int = 3) { self.restFactor = restFactor }

    /// Runs one call to Redis.
    mutating func call<Reply>(_ body: () throws(RedisError) -> Reply) throws(RedisError) -> Reply {
        let begun = Instant.now
        let reply = try body()
        calledAt = .now
        lastCall = calledAt - begun
        worked += lastCall
        return reply
    }

    mutating func rest() {
        let rest = worked * restFactor - (.now - calledAt)
        if rest > .zero { Poller.sleep(rest) }
        worked = .zero
    }

    /// Passes pages to `body`, until it returns `false`, a page is empty or `end` is reached.
    ///
    /// - Parameter page: returns the elements from an index on.
    mutating func read<Element>(
        _ client: inout RedisClient, from start: Int = 0, to end: Int = .max,
        page: (Int, inout RedisClient) throws(RedisError) -> [Element],
        _ body: ([Element], inout RedisClient) throws(RedisError) -> Bool
    ) throws(RedisError) {
        var index = start
        while index < end {
            let elements = try call { () throws(RedisError) in try page(index, &client) }
            if elements.isEmpty { return }
            guard try body(elements, &client) else { return }
            index += elements.count
            if index < end { rest() }
        }
    }

    /// Makes a change that Redis refuses if others have changed the list since it was read.
    ///
    /// - Returns: whether the change was made.
    /// - Throws: also if other clients change the list continuously.
    mutating func change(
        _ step: RedisError.Step, _ body: () throws(RedisError) -> Bool
    ) throws(RedisError) -> Bool {
        let isDone = try call(body)
        retries = isDone ? 0 : retries + 1
        guard retries < Self.mostRetries else { throw .timedOut(step) }
        return isDone
    }

    /// Puts the elements back that a walk has passed, also those of a walk that was interrupted.
    ///
    /// - Parameter step: returns the number of elements that it put back.
    mutating func putBack(_ step: () throws(RedisError) -> Int) throws(RedisError) {
        while try call(step) > 0 { rest() }
    }
}
