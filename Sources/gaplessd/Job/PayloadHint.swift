internal import JSONBytes
import RedisQueue

/// The members of a payload that determine the push type.
struct PayloadHint: Equatable {
    private var hasMDM = false
    private var hasEvent = false
    /// `aps.event`, as far as the order of a scope depends on it: `update` for everything but `start` and `end`.
    private(set) var event = Scope.Event.update
    private var hasState = false
    private var hasAttributes = false
    /// The offset of `content-changed` in the job.
    private var changed: Int?
    private var isContentAvailable = false
    private var hasOddAvailable = false
    private var hasUnderscore = false
    private var hasEmptyAlert = false
    private var hasEmptySound = false
    private var hasAlert = false
    private var hasBadge = false
    private var hasSound = false

    /// Whether the payload may have one of the members that determine another push type than `alert`: `content-available`,
    /// `content-state`, `content-changed`, `attributes`, `mdm`. Few payloads do, and only those are parsed.
    @inline(__always)
    static func mayDecide(_ data: JSONSlice) -> Bool {
        data.hasEscapes || data.keys.mayHaveKey("c", "o") || data.keys.mayHaveKey("a", "t") || data.keys.mayHaveKey("m", "d")
    }

    /// Parses an object that is known to be JSON.
    init(walking data: JSONSlice, in bytes: Span<UInt8>) {
        guard data.kind == .object else { return }
        var cursor = JSONCursor(at: data.range.lowerBound)
        var hasMDM = false
        do {
            try cursor.enterObject(in: bytes)
            while let key = try cursor.nextKey(in: bytes) {
                guard key.equals("aps", in: bytes) else {
                    let value = try cursor.value(in: bytes)
                    if key.equals("mdm", in: bytes) { hasMDM = value.kind != .null }
                    continue
                }
                self = PayloadHint()
                if cursor.peek(in: bytes) == .object {
                    try readAPS(&cursor, in: bytes)
                } else {
                    _ = try cursor.value(in: bytes)
                }
            }
        } catch {
            preconditionFailure("a payload is no longer JSON: \(error)")
        }
        self.hasMDM = hasMDM
    }

    private init() {}

    /// `liveactivity`, `mdm` or `background`; `nil` for any other payload.
    var pushType: String? {
        if isLiveActivity { return "liveactivity" }
        if hasMDM { return "mdm" }
        return isBackground ? "background" : nil
    }

    /// Whether a member is spelled or written in a way that APNs accepts, and that makes the push an alert.
    var isMistaken: Bool { hasOddAvailable || hasUnderscore || isContentAvailable && (hasEmptyAlert || hasEmptySound) }

    /// The offset of `content-changed`, which does not tell the push type: widgets and controls both have it.
    var undecided: Int? { isLiveActivity || hasMDM ? nil : changed }

    /// The members that determine `pushType`.
    var reason: String? {
        if isLiveActivity { return "aps.event with aps.\(hasState ? "content-state" : "attributes")" }
        if hasMDM { return "mdm" }
        return isBackground ? "aps.content-available alone" : nil
    }

    private var isLiveActivity: Bool { hasEvent && (hasState || hasAttributes) }
    private var isBackground: Bool { isContentAvailable && !hasAlert && !hasBadge && !hasSound }

    private mutating func readAPS(_ cursor: inout JSONCursor, in bytes: Span<UInt8>) throws(JSONError) {
        try cursor.enterObject(in: bytes)
        while let (key, value) = try cursor.nextMember(in: bytes) {
            let isGiven = value.kind != .null
            if key.equals("alert", in: bytes) {
                (hasAlert, hasEmptyAlert) = (isGiven, value.isEmpty)
            } else if key.equals("badge", in: bytes) {
                hasBadge = isGiven
            } else if key.equals("sound", in: bytes) {
                (hasSound, hasEmptySound) = (isGiven, value.kind == .string && value.isEmpty)
            } else if key.equals("event", in: bytes) {
                let text = value.kind == .string ? value.text(in: bytes) : ""
                (hasEvent, event) = (isGiven, text == "start" ? .start : text == "end" ? .end : .update)
            } else if key.equals("content-state", in: bytes) {
                hasState = isGiven
            } else if key.equals("attributes", in: bytes) {
                hasAttributes = isGiven
            } else if key.equals("content-changed", in: bytes) {
                changed = isGiven ? key.range.lowerBound : nil
            } else if key.equals("content-available", in: bytes) {
                // 1 in Apple's documentation; some producers write `true`.
                let isTrue = value.kind == .bool && bytes[value.range.lowerBound] == UInt8(ascii: "t")
                isContentAvailable = isTrue || value.integer(in: bytes) == .exact(1)
                hasOddAvailable = isGiven && !isContentAvailable && value.kind != .bool && value.integer(in: bytes) != .exact(0)
            } else if key.equals("content_available", in: bytes) {
                hasUnderscore = true
            }
        }
    }
}

extension JSONSlice {
    /// Whether it is `""` or `{}`.
    fileprivate var isEmpty: Bool { (kind == .string || kind == .object) && range.count == 2 }
}
