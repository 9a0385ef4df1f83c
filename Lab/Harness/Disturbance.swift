public import APNSSimulator
import RedisQueue

/// The ways in which one app of a list is disturbed while the others are not.
public enum Disturbance: String, CaseIterable, Sendable {
    case slow, silent, unreachable, credential, topic, throttled, paused, dead, failing

    /// The answer of the simulator to each push of the app; `nil` if the disturbance has another cause.
    public var answer: Answer? {
        switch self {
        case .silent: .silent
        case .slow: .delay(.seconds(12), then: .accept)
        case .throttled: .status(429, "TooManyRequests")
        case .failing: .status(503, "ServiceUnavailable")
        case .topic: .status(400, "TopicDisallowed")
        case .dead: .status(400, "BadDeviceToken")
        case .unreachable, .credential, .paused: nil
        }
    }
}

/// An app that can be disturbed alone.
public struct DisturbedApp {
    let name: String
    let keyID: String
    let tokens: String
    let door: FaultProxy

    /// - Parameters:
    ///   - keyID: of a signing key that no other app has.
    ///   - tokens: the prefix of its device tokens, and of no others.
    ///   - door: the path to the simulator that it alone uses.
    public init(_ name: String, keyID: String, tokens: String, door: FaultProxy) {
        (self.name, self.keyID, self.tokens, self.door) = (name, keyID, tokens, door)
    }
}

extension Stage {
    /// Disturbs the app in this way alone; `nil` ends every disturbance. The simulator runs in this process.
    public func disturb(_ app: DisturbedApp, by kind: Disturbance?) throws {
        var client = try RedisClient(settings: server)
        let pauses = PauseList(keys)
        if kind == .paused {
            _ = try pauses.pause(.app(app.name), for: nil, details: [], &client)
        } else {
            _ = try pauses.resume(.app(app.name), &client)
        }
        app.door.behaviour.refuses = kind == .unreachable
        if kind == .unreachable { app.door.cutAll() }
        let answer = kind?.answer
        simulator.behave {
            $0.refusals = kind == .credential ? [.init(.key(app.keyID), .invalidProviderToken)] : []
            $0.script.tokenPlans = answer.map { [.init(prefix: app.tokens, answers: [$0], repeatsLast: true)] } ?? []
        }
    }
}
