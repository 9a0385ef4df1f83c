import JSONBytes
import RedisQueue

/// The state of one app, as a worker reports it in Redis.
struct ReportedApp {
    var label: String
    /// A value of `Bottleneck`.
    var bottleneck: String
    /// The kind of the hold, and its sentence.
    var hold: (kind: String, reason: String)?
    var isPaused: Bool
    var sessions: Int64
    var streams: Int64
    var capacity: Int64
    /// Seconds from the claim to the response.
    var median: Double?
    var slowest: Double?

    /// The members of the record; `nil` if the worker has not reported yet, or is of an older version.
    static func record(of worker: QueueStatus.Worker) -> JSONValue? {
        guard let text = worker.details[WorkerRecord.apps], let value = try? JSONValue.parse(Array(text.utf8)),
            case .array = value
        else { return nil }
        return value
    }

    static func all(of worker: QueueStatus.Worker) -> [ReportedApp] {
        guard case .array(let apps)? = record(of: worker) else { return [] }
        return apps.map { app in
            ReportedApp(
                label: app["app"]?.stringValue ?? "unknown", bottleneck: app["bottleneck"]?.stringValue ?? "unknown",
                hold: app["held"]?.stringValue.map { ($0, app["reason"]?.stringValue ?? "") },
                isPaused: app["paused"]?.boolValue ?? false, sessions: app["sessions"]?.integerValue ?? 0,
                streams: app["streams"]?.integerValue ?? 0, capacity: app["capacity"]?.integerValue ?? 0,
                median: app["p50"]?.doubleValue, slowest: app["p99"]?.doubleValue)
        }
    }

    /// One word or two.
    var state: String {
        if let hold { return "held: \(hold.kind.replacing("_", with: " "))" }
        return isPaused ? "paused" : capacity > 0 ? "open" : "no session"
    }

    /// The limit of the app, for `status`; `nil` if nothing limits it.
    var remark: String? {
        if let hold { return "app \(label) is held: \(hold.reason)" }
        return bottleneck == Bottleneck.none.rawValue
            ? nil : "app \(label) is limited by: \(bottleneck.replacing("_", with: " "))"
    }
}
