internal import JSONBytes

/// The part of a push that a phone shows.
struct LockScreenCard: Sendable, Equatable {
    enum Kind: String, Sendable, CaseIterable {
        case alert, silent
        case liveActivity = "live activity"
        case voip, other

        /// The note of a card without an alert.
        var note: String {
            switch self {
            case .alert: "An alert without text"
            case .silent: "Silent: the app runs in the background, nothing is shown"
            case .liveActivity: "Live Activity"
            case .voip: "Incoming call: the app wakes and reports it to CallKit"
            case .other: "Nothing is shown"
            }
        }
    }

    var kind: Kind
    var title = ""
    var subtitle = ""
    var body = ""
    /// Marks such as `badge 3`, in the order of display.
    var marks: [String] = []

    /// - Parameter type: the value of `apns-push-type`.
    init(payload bytes: [UInt8], type: String?) {
        let payload = try? JSONValue.parse(bytes)
        let aps = payload?["aps"]
        let alert = aps?["alert"]
        kind = Self.kind(type, hasAlert: alert != nil, isSilent: aps?["content-available"]?.integerValue == 1)
        if let text = alert?.stringValue {
            body = text
        } else if let alert {
            // A text of the app's own language files is known to the phone only; its key is shown.
            (title, subtitle) = (Self.text(alert, "title"), Self.text(alert, "subtitle"))
            body = alert["body"]?.stringValue ?? alert["loc-key"]?.stringValue ?? ""
        }
        if let badge = aps?["badge"]?.integerValue { marks.append("badge \(badge)") }
        if let sound = aps?["sound"], let name = sound.stringValue ?? sound["name"]?.stringValue { marks.append("sound \(name)") }
        if let event = aps?["event"]?.stringValue { marks.append("event \(event)") }
        for key in ["thread-id", "category", "interruption-level"] {
            if let value = aps?[key]?.stringValue { marks.append("\(key) \(value)") }
        }
        if payload == nil { marks.append("the payload is not JSON") }
    }

    private static func kind(_ type: String?, hasAlert: Bool, isSilent: Bool) -> Kind {
        switch type {
        case "liveactivity": .liveActivity
        case "voip", "pushtotalk": .voip
        case "background": .silent
        case nil, "alert": !hasAlert && isSilent ? .silent : .alert
        default: .other
        }
    }

    private static func text(_ alert: JSONValue, _ key: String) -> String {
        alert[key]?.stringValue ?? alert["\(key)-loc-key"]?.stringValue ?? ""
    }
}
