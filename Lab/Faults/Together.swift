internal import Platform

/// Runs trials of a row at the same time, each on its own thread and stage, and returns the sum of their results.
///
/// A failed trial does not stop the others.
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

/// Runs the body on several threads. If a thread cannot start, the others run to their end.
private func awaitThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) throws {
    if count == 0 { return }
    let thread = try OwnedThread(name: "trial \(count - 1)", stackBytes: 8 << 20) { body(count - 1) }
    let others = Result { try awaitThreads(count - 1, body) }
    thread.join()
    try others.get()
}
