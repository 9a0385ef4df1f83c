import Harness
internal import JSONBytes
internal import Platform
internal import RedisQueue

/// The receiver of the results, always at one port. A request that it has read counts as stored, whether or not the response
/// reached the relay.
final class ResultReceiver {
    static let stream = "push_results"
    /// Entries of one request.
    private static let batch = 250

    /// The requests that the receiver refuses, and its speed.
    struct Limits: Sendable {
        /// Bytes of a body; 413 refuses a longer one.
        var bytes = Int.max
        /// The time for each result of a body.
        var timePerResult = Duration.zero
        /// A text of results; 400 refuses a body that contains one.
        var refused: String?
    }

    private let limits = Locked(Limits())
    private var server: HTTPReceiver?
    private var port = 0
    private var bodies: [String] = []
    /// The number of results that may arrive twice: the batches in flight at the kills.
    private(set) var mostRepeats = 0

    /// Starts and returns the URL.
    func start() throws -> String {
        let server = try HTTPReceiver(
            port: port,
            judge: { [limits] body in
                let limits = limits.withLock { $0 }
                if body.utf8.count > limits.bytes { return 413 }
                return limits.refused.map(body.contains) ?? false ? 400 : 200
            },
            pace: { [limits] body in
                let time = limits.withLock { $0.timePerResult }
                return time == .zero ? .zero : time * body.count { $0 == "{" }
            })
        self.server = server
        port = server.port
        return "http://127.0.0.1:\(port)/results"
    }

    /// Ends with all connections at once, as by kill -9.
    func kill() {
        // A request that is accepted while it ends counts too.
        server?.close()
        bodies += server?.accepted ?? []
        server = nil
    }

    func limit(_ new: Limits) { limits.withLock { $0 = new } }

    /// The requests since the last start.
    var requests: [HTTPReceiver.Request] { server?.requests ?? [] }

    func allowRepeats(of batches: Int) { mostRepeats += batches * Self.batch }

    /// The ids of all results that arrived, with their numbers.
    var results: [String: Int] {
        var counts: [String: Int] = [:]
        for body in bodies + (server?.accepted ?? []) {
            guard case .array(let results)? = try? JSONValue.parse(Array(body.utf8)) else { continue }
            for result in results { counts[result["id"]?.stringValue ?? "", default: 0] += 1 }
        }
        return counts
    }

    var repeats: Int { results.values.reduce(0) { $0 + $1 - 1 } }

    /// The number of results in requests whose response came too late: they arrive again.
    var lateResults: Int {
        requests.filter { $0.isLate && $0.status == 200 }.reduce(0) { $0 + $1.body.count { $0 == "{" } }
    }

    func hasAll(in stage: Stage) throws -> Bool {
        let entries = try stage.command("XRANGE", Self.stream, "-", "+").items ?? []
        return Set(entries.compactMap { $0.items?.first?.text }).isSubset(of: results.keys)
    }
}
