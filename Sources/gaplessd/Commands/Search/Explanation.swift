import JSONBytes
import PushPool
import RedisQueue

/// The request that a job produces.
struct Explanation {
    /// The reason why the job becomes a dead letter.
    struct Rejection: Error {
        /// As in the record of the dead letter.
        var reason: String

        static let tooLarge = Rejection(reason: "JobTooLarge")
    }

    private let app: String
    private let server: String
    private let path: String
    private let headers: [(name: String, value: String)]
    private let payloadBytes: Int
    private let payloadLimit: Int
    private let requests: Int
    private let badTokens: [String]
    private let expiration: Int64
    private let notBefore: Double?
    private let isMasked: Bool

    /// - Parameter now: Unix seconds.
    init(_ bytes: [UInt8], _ configuration: Configuration, now: Int64) throws(Rejection) {
        if bytes.count > ClaimedJob.mostBytes { throw .tooLarge }
        var plan = DispatchPlan(configuration, now: now)
        let job: Job
        let number: Int
        do throws(JobError) {
            job = try plan.reader.read(bytes)
            number = try plan.routes.app(for: job)
        } catch {
            throw Rejection(reason: error.reason)
        }
        if job.isExpired(now: now) { throw Rejection(reason: "Expired") }
        var payload = job.data.count
        var isMasked = false
        switch plan.filter?.judge(job.data, of: bytes) {
        case .stopped: throw Rejection(reason: "Filtered")
        case .masked(let masked): (payload, isMasked) = (masked.count, true)
        case .clean, nil: break
        }
        let tokens = job.tokens
        let valid = tokens.filter { $0.fault == nil }
        guard let first = valid.first else { throw Rejection(reason: "no token of the job is valid") }
        badTokens = tokens.filter { $0.fault != nil }.map { "\(job.text(of: $0)): \($0.fault?.description ?? "")" }
        let settings = configuration.settings.apps[number]
        let topic = job.topic(ofApp: plan.apps[number].topic)
        let isBroadcast: Bool
        if case .channel = job.target { isBroadcast = true } else { isBroadcast = false }
        app = settings.name ?? PauseNote.topLevel
        server = "\(settings.pool.host):\(settings.pool.port)"
        path = isBroadcast ? "/4/broadcasts/apps/\(topic ?? "")" : "/3/device/\(job.text(of: first))"
        expiration = job.expiration(now: now)
        let all: [(String, String?)] = [
            (isBroadcast ? "apns-channel-id" : "apns-topic", isBroadcast ? job.text(of: first) : topic),
            ("apns-push-type", job.pushType), ("apns-priority", "\(job.priority)"), ("apns-expiration", "\(expiration)"),
            ("apns-collapse-id", job.collapseID), (isBroadcast ? "apns-request-id" : "apns-id", job.apnsID),
        ]
        headers = all.compactMap { name, value in value.map { (name, $0) } }
        payloadBytes = payload
        payloadLimit = isBroadcast ? JobReader.longestBroadcast : JobReader.longestPayload(pushType: job.pushType)
        (requests, notBefore, self.isMasked) = (valid.count, job.notBefore, isMasked)
    }

    var lines: [String] {
        var lines = [row("app", app), row("server", server), row("path", path)]
        for (name, value) in headers {
            let isTime = name == "apns-expiration" && expiration > 0
            lines.append(row(name, value + (isTime ? "  \(LocalTime.text(of: expiration))" : "")))
        }
        lines.append(row("payload", "\(payloadBytes.counted("byte")) of at most \(payloadLimit)" + (isMasked ? ", masked" : "")))
        if requests > 1 || !badTokens.isEmpty { lines.append(row("requests", "\(requests), one for each valid token")) }
        for token in badTokens { lines.append(row("dead letter", token)) }
        if let notBefore { lines.append(row("not before", LocalTime.text(of: Int64(notBefore)))) }
        return lines
    }

    private func row(_ name: String, _ value: String) -> String {
        name + String(repeating: " ", count: max(1, 18 - name.count)) + value.printable
    }

    var object: JSONValue {
        .members([
            "app": .string(app), "server": .string(server), "path": .string(path),
            "headers": .object(headers.map { JSONMember(key: $0.name, value: .string($0.value), offset: 0) }),
            "payload_bytes": .integer(payloadBytes), "payload_limit": .integer(payloadLimit), "requests": .integer(requests),
            "bad_tokens": .array(badTokens.map(JSONValue.string)),
            "not_before": notBefore.map { .number("\($0)") } ?? .null, "masked": .bool(isMasked),
        ])
    }
}
