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

/// An app that can be disturbed alone: it has a signing key of its own, and its own proxy before the simulator.
public struct DisturbedApp {
    /// The number of the first job of other apps. Lower ones are of this app, which the prefix of their tokens shows.
    public static let firstOfOthers = 0x10_0000
    public static let tokens = String(deviceToken(0).dropLast(5))

    let name: String
    let door: FaultProxy

    /// - Parameter seed: of the proxy.
    public init(_ name: String, of stage: Stage, seed: UInt64) throws {
        (self.name, door) = (name, try FaultProxy(toPort: stage.service.port, seed: seed))
    }

    /// The app in the settings.
    public var settings: String { Stage.app(at: door.port, keyID: HostedSimulator.secondKeyID) }
}

extension Stage {
    /// Returns an app for the settings.
    ///
    /// - Parameter port: of the simulator or of a proxy before it.
    public static func app(at port: Int, keyID: String) -> String {
        """
        {"apns_server": "localhost:\(port)", "apns_auth_key_path": "credentials/AuthKey_\(keyID).p8", \
        "apns_auth_key_id": "\(keyID)", "apns_team_id": "SIMTEAM001", "apns_topic": "\(Stage.topic)"}
        """
    }

    /// The number of commands that Redis has executed, and the bytes of its append-only file.
    public func activity() throws -> (commands: Int, logBytes: Int) {
        (
            try command("INFO", "stats").number(after: "total_commands_processed:") ?? 0,
            try command("INFO", "persistence").number(after: "aof_current_size:") ?? 0
        )
    }

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
            $0.refusals = kind == .credential ? [.init(.key(HostedSimulator.secondKeyID), .invalidProviderToken)] : []
            $0.script.tokenPlans = answer.map { [.init(prefix: DisturbedApp.tokens, answers: [$0], repeatsLast: true)] } ?? []
        }
    }
}
