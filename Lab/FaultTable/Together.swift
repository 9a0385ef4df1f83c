internal import Threads

/// Runs so many trials of a row at the same time, each in a thread and on a stage of its own; returns the sum of their books.
///
/// One that could not be judged does not keep the others from their end.
func together(_ count: Int, _ trial: @escaping @Sendable (_ place: Int) throws -> Trial.Result) throws -> Trial.Result {
    if count == 1 { return try trial(0) }
    let ends = Locked<[Int: Result<Trial.Result, any Error>]>([:])
    try awaitThreads(count) { place in
        let end = Result { try trial(place) }
        ends.withLock { $0[place] = end }
    }
    let results = try ends.withLock { $0 }.sorted { $0.key < $1.key }.map { try $0.value.get() }
    return results.dropFirst().reduce(results[0], +)
}

/// Runs the body in so many threads, one inside of the other's wait: a thread that cannot be started ends nothing that runs.
private func awaitThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) throws {
    if count == 0 { return }
    let thread = try OwnedThread(name: "trial \(count - 1)", stackBytes: 8 << 20) { body(count - 1) }
    let others = Result { try awaitThreads(count - 1, body) }
    thread.join()
    try others.get()
}
