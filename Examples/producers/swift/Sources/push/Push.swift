// Enqueues push jobs with the RedisQueue library of this checkout.
// Usage: REDIS_PORT=6379 QUEUE=apns_queue TOKEN=… swift run push
import Foundation
import RedisQueue

@main
struct Push {
    static func main() throws {
        let environment = ProcessInfo.processInfo.environment
        let queue = environment["QUEUE"] ?? "apns_queue"
        let token = environment["TOKEN"] ?? "0a1b2c"
        let server = QueueSettings.Server.tcp(
            host: environment["REDIS_HOST"] ?? "127.0.0.1", port: environment["REDIS_PORT"].flatMap(Int.init) ?? 6379)
        var client = try RedisClient(settings: QueueSettings(list: queue, server: server))

        func enqueue(_ job: [String: Any]) throws {
            let bytes = try JSONSerialization.data(withJSONObject: job)
            _ = try client.command(["RPUSH", queue, String(decoding: bytes, as: UTF8.self)])
        }

        // An alert.
        try enqueue(["token": token, "identifier": 1, "data": ["aps": ["alert": "Hello"]]])

        // A silent push: content-available without an alert. Its push type is background and its priority is 5.
        try enqueue(["token": token, "identifier": 2, "data": ["aps": ["content-available": 1], "sync": true]])

        // The same content for several devices.
        try enqueue(["tokens": [token, token + "00"], "identifier": 3, "data": ["aps": ["alert": "News"]]])

        // An update of a Live Activity, with the token of the activity. The daemon adds the suffix to the topic.
        let state: [String: Any] = [
            "timestamp": Int(Date().timeIntervalSince1970), "event": "update", "content-state": ["score": "2:1"],
        ]
        try enqueue(["token": token, "identifier": 4, "push_type": "liveactivity", "data": ["aps": state]])

        // A campaign: the tokens of its devices, a million or more, go to a key of their own in pipelined commands.
        let key = "{\(queue)}:audience:\(ProcessInfo.processInfo.processIdentifier)"
        let size = environment["AUDIENCE"].flatMap(Int.init) ?? 1000
        for first in stride(from: 0, to: size, by: 10_000) {
            let batch = (first..<min(first + 10_000, size)).map { number -> [String] in
                let digits = String(number, radix: 16)
                return ["RPUSH", key, String(repeating: "0", count: 64 - digits.count) + digits]
            }
            _ = try client.pipeline(batch)
        }
        try enqueue(["tokens_from": key, "identifier": 5, "data": ["aps": ["alert": "To all"]]])

        // Feedback: the tokens that are dead or suspect. LPOP removes what it returns.
        for entry in try client.command(["LPOP", "{\(queue)}:gapless:feedback", "100"]).items ?? [] {
            let feedback = try JSONSerialization.jsonObject(with: Data(entry.bytes ?? [])) as? [String: Any] ?? [:]
            print(feedback["verdict"] ?? "", feedback["token"] ?? "", feedback["reason"] ?? "")
        }
    }
}
