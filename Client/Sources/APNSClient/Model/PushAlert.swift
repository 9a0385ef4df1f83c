internal import FoundationEssentials
internal import JSONBytes

extension Push {
    /// An alert in the words of Apple's `aps` dictionary ("Generating a remote notification").
    public struct Alert: Sendable, Equatable {
        /// A text, or the key of one in the strings of the app.
        public enum Text: Sendable, Equatable, ExpressibleByStringLiteral, ExpressibleByStringInterpolation {
            case plain(String)
            case localized(key: String, arguments: [String] = [])

            public init(stringLiteral value: String) { self = .plain(value) }
        }

        public enum Sound: Sendable, Equatable {
            case standard
            /// A sound file of the app.
            case named(String)
            /// Plays also if the device is muted; needs an entitlement. The volume is from 0 to 1.
            case critical(named: String = "default", volume: Double = 1)
        }

        public enum InterruptionLevel: String, Sendable {
            case passive, active, critical
            case timeSensitive = "time-sensitive"
        }

        public var title: Text?
        public var subtitle: Text?
        public var body: Text?
        public var badge: Int?
        public var sound: Sound?
        /// The category of actions that the app has registered.
        public var category: String?
        /// Groups alerts on the device.
        public var threadID: String?
        public var interruptionLevel: InterruptionLevel?
        /// Whether an extension of the app may change the alert.
        public var isMutable = false

        public init(title: Text? = nil, subtitle: Text? = nil, body: Text? = nil, badge: Int? = nil, sound: Sound? = nil) {
            self.title = title
            self.subtitle = subtitle
            self.body = body
            self.badge = badge
            self.sound = sound
        }
    }

    /// Makes an alert.
    ///
    /// - Throws: ``APNSError`` with the cause ``APNSError/Cause/invalid``.
    public init(to target: Target, alert: Alert) throws(APNSError) {
        try self.init(to: target, payload: AlertPayload(alert: alert))
    }

    /// Makes an alert with keys of the app beside `aps`.
    ///
    /// - Parameters:
    ///   - target: a device, or a broadcast channel.
    ///   - alert: the payload below `aps`.
    ///   - custom: a value that becomes a JSON object without the key `aps`.
    /// - Throws: ``APNSError`` with the cause ``APNSError/Cause/invalid``.
    public init(to target: Target, alert: Alert, custom: some Encodable) throws(APNSError) {
        let (aps, own): ([UInt8], [UInt8])
        do {
            aps = [UInt8](try JSONEncoder().encode(AlertPayload(alert: alert)))
            own = [UInt8](try JSONEncoder().encode(custom))
        } catch { throw .invalid("the payload cannot be encoded: \(error)") }
        guard let keys = Self.keys(of: own), !keys.contains("aps") else {
            throw .invalid("the custom part is not a JSON object without the key aps")
        }
        try self.init(to: target, json: keys.isEmpty ? aps : aps.dropLast() + [UInt8(ascii: ",")] + own.dropFirst())
    }

    /// `nil` if the JSON is not an object.
    private static func keys(of json: [UInt8]) -> [String]? {
        guard case .object(let members) = try? JSONValue.parse(json) else { return nil }
        return members.map(\.key)
    }
}

/// The payload of an alert.
private struct AlertPayload: Encodable {
    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(_ name: String) { stringValue = name }
        init?(stringValue: String) { self.init(stringValue) }
        init?(intValue: Int) { nil }
    }

    let alert: Push.Alert

    func encode(to encoder: any Encoder) throws {
        var payload = encoder.container(keyedBy: Key.self)
        var aps = payload.nestedContainer(keyedBy: Key.self, forKey: Key("aps"))
        if alert.title != nil || alert.subtitle != nil || alert.body != nil {
            var content = aps.nestedContainer(keyedBy: Key.self, forKey: Key("alert"))
            try encode(alert.title, "title", "title-loc-key", "title-loc-args", &content)
            try encode(alert.subtitle, "subtitle", "subtitle-loc-key", "subtitle-loc-args", &content)
            try encode(alert.body, "body", "loc-key", "loc-args", &content)
        }
        try aps.encodeIfPresent(alert.badge, forKey: Key("badge"))
        switch alert.sound {
        case nil: break
        case .standard: try aps.encode("default", forKey: Key("sound"))
        case .named(let name): try aps.encode(name, forKey: Key("sound"))
        case .critical(let name, let volume):
            var sound = aps.nestedContainer(keyedBy: Key.self, forKey: Key("sound"))
            try sound.encode(1, forKey: Key("critical"))
            try sound.encode(name, forKey: Key("name"))
            try sound.encode(min(max(volume, 0), 1), forKey: Key("volume"))
        }
        try aps.encodeIfPresent(alert.category, forKey: Key("category"))
        try aps.encodeIfPresent(alert.threadID, forKey: Key("thread-id"))
        try aps.encodeIfPresent(alert.interruptionLevel?.rawValue, forKey: Key("interruption-level"))
        if alert.isMutable { try aps.encode(1, forKey: Key("mutable-content")) }
    }

    private func encode(
        _ text: Push.Alert.Text?, _ plain: String, _ key: String, _ arguments: String,
        _ content: inout KeyedEncodingContainer<Key>
    ) throws {
        switch text {
        case nil: break
        case .plain(let text): try content.encode(text, forKey: Key(plain))
        case .localized(let name, let values):
            try content.encode(name, forKey: Key(key))
            if !values.isEmpty { try content.encode(values, forKey: Key(arguments)) }
        }
    }
}
