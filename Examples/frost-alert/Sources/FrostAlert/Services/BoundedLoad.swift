internal import Foundation
internal import FoundationNetworking
internal import Synchronization

/// Loads one response. The transfer ends when the body has more bytes than the limit, so that a faulty server fills no memory.
final class BoundedLoad: NSObject, URLSessionDataDelegate {
    struct TooLarge: Error, CustomStringConvertible {
        var limit: Int
        var description: String { "the response of the forecast service has more than \(limit) bytes" }
    }

    private struct State {
        var body = Data()
        var receiver: CheckedContinuation<(Data, URLResponse?), any Error>?
        /// The first end counts.
        var end: Result<(Data, URLResponse?), any Error>?
    }

    private let limit: Int
    private let state = Mutex(State())

    private init(limit: Int) { self.limit = limit }

    /// - Parameter limit: the most bytes of the body.
    static func data(for request: URLRequest, limit: Int) async throws -> (Data, URLResponse?) {
        let load = BoundedLoad(limit: limit)
        let session = URLSession(configuration: .ephemeral, delegate: load, delegateQueue: nil)
        // Ends the transfer, and releases the delegate.
        defer { session.invalidateAndCancel() }
        let task = session.dataTask(with: request)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { receiver in
                load.begin(receiver)
                task.resume()
            }
        } onCancel: {
            load.end(.failure(CancellationError()))
        }
    }

    private func begin(_ receiver: CheckedContinuation<(Data, URLResponse?), any Error>) {
        let end = state.withLock { state in
            if state.end == nil { state.receiver = receiver }
            return state.end
        }
        if let end { receiver.resume(with: end) }
    }

    private func end(_ result: Result<(Data, URLResponse?), any Error>) {
        let receiver = state.withLock { state in
            if state.end == nil { state.end = result }
            return state.receiver.take()
        }
        receiver?.resume(with: result)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        let isTooLarge = state.withLock { state in
            if state.body.count + data.count > limit { return true }
            state.body += data
            return false
        }
        if isTooLarge { end(.failure(TooLarge(limit: limit))) }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        if let error { return end(.failure(error)) }
        end(.success((state.withLock { $0.body }, task.response)))
    }
}
