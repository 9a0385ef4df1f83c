internal import DequeModule
internal import Threads

/// Receives the results of a sequence of pushes. It has one reader.
final class ResultInbox: Sendable {
    private struct State {
        var results: [PushResult] = []
        var reader: CheckedContinuation<Void, Never>?
        var isCancelled = false
    }

    private let state = Locked(State())

    func deliver(_ result: PushResult) {
        let reader = state.withLock { state in
            state.results.append(result)
            return state.reader.take()
        }
        reader?.resume()
    }

    /// Whether the reader's task was cancelled.
    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    func cancel() { state.withLock { $0.isCancelled = true } }

    /// Waits until there are results, and takes them.
    func receive() async -> [PushResult] {
        while true {
            let results = state.withLock { state in
                defer { state.results = [] }
                return state.results
            }
            if !results.isEmpty { return results }
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    if !state.results.isEmpty { return true }
                    state.reader = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        }
    }
}
