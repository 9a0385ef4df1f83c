internal import FoundationEssentials

/// The payload of a push to a Live Activity: the state of an event, and how the device shows it.
///
///     let update = LiveActivity.update(Score(home: 1, away: 0))
///     let receipt = try await client.send(Push(to: .channel(id), liveActivity: update))
///
/// The device decodes `content-state` and `attributes` with the default strategies of `JSONDecoder`, and they are encoded with
/// those of `JSONEncoder`.
public struct LiveActivity<State: Encodable & Sendable>: Sendable {
    /// The value of `event`.
    public enum Event: String, Sendable, Encodable {
        case start, update, end
    }

    /// The text that the device shows and plays with a state.
    public struct Alert: Sendable, Equatable, Encodable {
        public var title: String
        public var body: String
        /// The name of a sound file; `nil` is the default sound.
        public var sound: String?

        public init(title: String, body: String, sound: String? = nil) {
            (self.title, self.body, self.sound) = (title, body, sound)
        }
    }

    /// How the server reaches an activity that it starts.
    public enum Updates: Sendable, Equatable {
        /// The app gets an update token once the user has tapped Allow.
        case token
        /// The activity subscribes to a broadcast channel (iOS 18).
        case channel(String)
    }

    /// The attributes of a start: the name of their type, and their encoding.
    private struct Attributes: Sendable {
        let type: String
        let value: any Encodable & Sendable
        let updates: Updates?
    }

    /// The kind of event.
    public let event: Event
    /// `content-state`; only an end may have none.
    public var state: State?
    /// Unix seconds. The device ignores a state that is older than the one that it shows.
    public var timestamp: Int64
    /// Unix seconds after which the state is outdated.
    public var staleDate: Int64?
    /// Of an end: Unix seconds at which the activity leaves the screen. A past time is at once; `nil` is up to four hours.
    public var dismissalDate: Int64?
    /// The order among the activities of the app: a higher one goes first.
    public var relevanceScore: Double?
    /// The alert; a start requires one.
    public var alert: Alert?
    private var attributes: Attributes?

    private init(_ event: Event, _ state: State?, _ timestamp: Int64?, _ attributes: Attributes? = nil) {
        self.event = event
        self.state = state
        self.timestamp = timestamp ?? Int64(Date().timeIntervalSince1970)
        self.attributes = attributes
    }

    /// Starts an activity by a push to the push-to-start token of a device. A broadcast starts none.
    ///
    /// - Parameters:
    ///   - attributes: the static content, of the type that the app declares.
    ///   - type: the name of that type; `nil` is the name of the Swift type.
    ///   - state: the first state.
    ///   - alert: what the device shows with the start.
    ///   - updates: `nil` leaves the choice to the app.
    ///   - timestamp: Unix seconds; `nil` is now.
    public static func start<Attributes: Encodable & Sendable>(
        _ attributes: Attributes, type: String? = nil, state: State, alert: Alert, updates: Updates? = nil,
        timestamp: Int64? = nil
    ) -> LiveActivity {
        let content = Self.Attributes(type: type ?? "\(Attributes.self)", value: attributes, updates: updates)
        var activity = LiveActivity(.start, state, timestamp, content)
        activity.alert = alert
        return activity
    }

    /// Shows another state.
    ///
    /// - Parameters:
    ///   - state: the new state.
    ///   - timestamp: Unix seconds; `nil` is now.
    public static func update(_ state: State, timestamp: Int64? = nil) -> LiveActivity {
        LiveActivity(.update, state, timestamp)
    }

    /// Ends the activity.
    ///
    /// - Parameters:
    ///   - state: the last state; `nil` keeps the one that the device shows.
    ///   - dismissalDate: Unix seconds at which it leaves the screen.
    ///   - timestamp: Unix seconds; `nil` is now.
    public static func end(_ state: State? = nil, dismissalDate: Int64? = nil, timestamp: Int64? = nil) -> LiveActivity {
        var activity = LiveActivity(.end, state, timestamp)
        activity.dismissalDate = dismissalDate
        return activity
    }

    var startsActivity: Bool { event == .start }
}

extension LiveActivity: Encodable {
    private enum Key: String, CodingKey {
        case aps, timestamp, event, alert, attributes
        case state = "content-state"
        case attributesType = "attributes-type"
        case staleDate = "stale-date"
        case dismissalDate = "dismissal-date"
        case relevanceScore = "relevance-score"
        case inputPushToken = "input-push-token"
        case inputPushChannel = "input-push-channel"
    }

    public func encode(to encoder: any Encoder) throws {
        var payload = encoder.container(keyedBy: Key.self)
        var aps = payload.nestedContainer(keyedBy: Key.self, forKey: .aps)
        try aps.encode(timestamp, forKey: .timestamp)
        try aps.encode(event, forKey: .event)
        try aps.encodeIfPresent(state, forKey: .state)
        try aps.encodeIfPresent(staleDate, forKey: .staleDate)
        try aps.encodeIfPresent(dismissalDate, forKey: .dismissalDate)
        try aps.encodeIfPresent(relevanceScore, forKey: .relevanceScore)
        try aps.encodeIfPresent(alert, forKey: .alert)
        guard let attributes else { return }
        try aps.encode(attributes.type, forKey: .attributesType)
        try attributes.value.encode(to: aps.superEncoder(forKey: .attributes))
        switch attributes.updates {
        case .token: try aps.encode(1, forKey: .inputPushToken)
        case .channel(let id): try aps.encode(id, forKey: .inputPushChannel)
        case nil: break
        }
    }
}

extension Push {
    /// A push to a Live Activity: to the push-to-start token for a start, and to the update token or the channel otherwise.
    ///
    /// - Throws: ``APNSError`` with the cause ``APNSError/Cause/invalid``.
    public init<State>(to target: Target, liveActivity: LiveActivity<State>) throws(APNSError) {
        if case .channel = target, liveActivity.startsActivity { throw .invalid("a broadcast cannot start a Live Activity") }
        try self.init(to: target, payload: liveActivity)
        kind = .liveActivity
    }
}
