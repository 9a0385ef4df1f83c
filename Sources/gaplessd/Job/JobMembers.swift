internal import JSONBytes
import PushPool
import RedisQueue

/// The places of a job's members after one pass over its bytes: the last member of each name, without those that are `null`.
///
/// Not copyable, because it is used on the hot path and has half a kilobyte.
struct JobMembers: ~Copyable {
    let bytes: [UInt8]
    private var values = InlineArray<28, JSONSlice?>(repeating: nil)
    /// The range of the last member `tokens` or `tokens_from`, and the number of members that name a target, including `null`.
    private(set) var tokensMember: Range<Int>?
    private(set) var targetMembers = 0
    /// Whether the job has a member on which `Job.Rare` depends, including `null`.
    private(set) var hasRare = false

    subscript(key: JobKey) -> JSONSlice? { values[key.rawValue] }

    init(of job: [UInt8]) throws(JSONError) {
        bytes = job
        let bytes = job.span
        var cursor = JSONCursor()
        try cursor.enterObject(in: bytes)
        while let (name, value) = try cursor.nextMember(in: bytes) {
            guard let key = JobKey(name, in: bytes) else { continue }
            values[key.rawValue] = value.kind == .null ? nil : value
            if key.isRare { hasRare = true }
            if key.isTarget { targetMembers += 1 }
            if key == .tokens || key == .tokensFrom { tokensMember = name.range.lowerBound..<value.range.upperBound }
        }
        try cursor.finish(in: bytes)
        // Beside a token it is an unknown member: the original had no channels.
        if targetMembers > 1 && (self[.token] != nil || self[.tokens] != nil || self[.tokensFrom] != nil) {
            (values[JobKey.channel.rawValue], values[JobKey.channelName.rawValue]) = (nil, nil)
        }
    }

    /// Whether the job goes to a channel.
    @inline(__always)
    var isBroadcast: Bool { self[.channel] != nil || self[.channelName] != nil }
}

// The rules of each member of a job (docs/jobs.md, "Keys"). The bytes are known to be JSON.
extension JobMembers {
    /// The push type of a job without `push_type`, and where it comes from.
    ///
    /// - Parameters:
    ///   - own: the topic that the job names.
    ///   - ofApp: that of the app, if it has a suffix and the job names none.
    @inline(__always)
    func derivedPushType(own: PushTopic?, ofApp: PushTopic?) throws(JobError) -> (pushType: String, origin: PushTypeOrigin) {
        if isBroadcast { return ("liveactivity", .channel) }
        if let pushType = own?.pushType { return (pushType, .topic) }
        if let data = self[.data], PayloadHint.mayDecide(data) { return try pushType(of: data, ofApp: ofApp) }
        if let pushType = ofApp?.pushType { return (pushType, .topicOfApp) }
        return ("alert", .none)
    }

    /// A payload of a Live Activity or of MDM cannot be of the push type of the app's topic.
    private func pushType(of data: JSONSlice, ofApp: PushTopic?) throws(JobError) -> (pushType: String, origin: PushTypeOrigin) {
        let hint = PayloadHint(walking: data, in: bytes.span)
        let pushType = hint.pushType
        if let pushType, pushType != "background" { return (pushType, .payload) }
        let topic = ofApp?.pushType
        if let offset = hint.undecided, topic != "widgets", topic != "controls" {
            throw fault(offset, "push_type is missing: data has content-changed, so it is widgets or controls")
        }
        if let topic { return (topic, .topicOfApp) }
        return pushType.map { ($0, .payload) } ?? ("alert", hint.isMistaken ? .mistaken : .none)
    }

    /// The members of the payload that determine its push type; `nil` if none does.
    var reasonInPayload: String? { self[.data].flatMap { PayloadHint(walking: $0, in: bytes.span).reason } }

    /// The suffix that replaces the one of the app's topic, if the job names no topic; `nil` leaves the app's topic unchanged.
    ///
    /// - Parameter topic: that of the app, if it has a suffix.
    @inline(__always)
    func topicSuffix(ofApp topic: PushTopic?, pushType: String, _ origin: PushTypeOrigin) -> String? {
        if self[.topic] != nil || origin == .none || origin == .mistaken || origin == .topicOfApp { return nil }
        return changedSuffix(ofApp: topic, pushType: pushType)
    }

    private func changedSuffix(ofApp topic: PushTopic?, pushType: String) -> String? {
        // The path of a broadcast has the bundle id.
        guard let suffix = !isBroadcast ? PushTopic.suffix(of: pushType) : "" else { return nil }
        let present = topic?.pushType.flatMap(PushTopic.suffix) ?? ""
        return suffix == present ? nil : suffix
    }

    /// Returns the topic that the job names, with the suffix of its push type.
    func topic(_ topic: PushTopic, pushType: String) throws(JobError) -> String? {
        guard let value = self[.topic], let text = try name(.topic) else { return nil }
        if isBroadcast {
            if topic.pushType == nil { return text }
            throw fault(value, "topic has the suffix of a push type, and a channel belongs to a bundle id")
        }
        guard let suffix = PushTopic.suffix(of: pushType) else { return text }
        guard let own = topic.pushType else { return text + suffix }
        if own == pushType { return text }
        throw fault(self[.pushType] ?? value, "push_type \(pushType) does not go with the topic \(text)")
    }

    func target() throws(JobError) -> Job.Target {
        if isBroadcast { return try broadcast() }
        if let source = self[.tokensFrom] { return .audience(try audience(source)) }
        switch (self[.token], self[.tokens]) {
        case (nil, nil): throw .structure("token is missing")
        case (.some, let tokens?): throw fault(tokens, "token and tokens are both given")
        case (let token?, nil):
            return isPlainToken(token) ? .token(token.content) : try unusualToken(token)
        case (nil, let tokens?): return .tokens(try self.tokens(of: tokens))
        }
    }

    func data(pushType: String) throws(JobError) -> Range<Int> {
        guard let data = self[.data] else { throw .structure("data is missing", hint: hasBareAPS ? "aps belongs in data" : nil) }
        guard data.kind == .object else { throw fault(data, "data is not an object") }
        let most = isBroadcast ? PayloadLimit.ofBroadcast : PayloadLimit.toDevice(pushType: pushType)
        guard data.range.count <= most else {
            throw fault(data, "data is \(data.range.count) bytes long, over the \(most) of push type \(pushType)")
        }
        return data.range
    }

    /// The text of `replaces`, 1 to 64 bytes; `nil` if absent.
    func replaces() throws(JobError) -> String? {
        guard let value = self[.replaces] else { return nil }
        guard value.kind == .string else { throw fault(value, "replaces is not a string") }
        let text = value.text(in: bytes.span)
        guard (1...JobReader.longestReplaces).contains(text.utf8.count) else {
            throw fault(value, "replaces is \(text.utf8.count) bytes long; expected 1 to \(JobReader.longestReplaces)")
        }
        return text
    }

    /// The mark of the daemon; `nil` if it is not a positive integer that Redis' scripts represent exactly.
    func rank() -> UInt64? {
        if case .exact(let rank) = self[.rank]?.integer(in: bytes.span), rank > 0, rank < 1 << 53 { UInt64(rank) } else { nil }
    }

    /// The mark of the daemon; `nil` if it is no text that can be the id of a channel.
    func channelMark() -> String? {
        guard let value = self[.channelMark], value.kind == .string else { return nil }
        let text = value.text(in: bytes.span)
        return (1...JobReader.longestChannelMark).contains(text.utf8.count) ? text : nil
    }

    /// The event of the payload, as far as the order of a scope depends on it.
    func event() -> Scope.Event { self[.data].map { PayloadHint(walking: $0, in: bytes.span).event } ?? .update }

    /// A signed or unsigned integer of 64 bits, or any string; `nil` if absent.
    func identifier() throws(JobError) -> Range<Int>? {
        guard let value = self[.identifier] else { return nil }
        if value.kind == .string { return value.range }
        switch value.integer(in: bytes.span) {
        case .exact: return value.range
        case .outOfRange where UInt64(value.text(in: bytes.span)) != nil: return value.range
        case .outOfRange: throw fault(value, "identifier is beyond 64 bits")
        case nil: throw fault(value, "identifier is neither an integer nor a string")
        }
    }

    /// The retry marker. A value out of range counts as the nearest valid one.
    @inline(__always)
    func attempts(limit: Int) -> Int { mark(.retrying, limit: limit) }

    /// `_gapless_doubtful`, with the same rule.
    func doubtful() -> Int { mark(.doubtful, limit: Job.maxDoubtfulResends) }

    @inline(__always)
    private func mark(_ key: JobKey, limit: Int) -> Int {
        guard let value = self[key] else { return 0 }
        return mark(value, limit: limit)
    }

    private func mark(_ value: JSONSlice, limit: Int) -> Int {
        switch value.integer(in: bytes.span) {
        case .exact(let count): Int(min(max(count, 0), Int64(limit)))
        case .outOfRange(isNegative: false): limit
        case .outOfRange, nil: 0
        }
    }

    /// The mark of the daemon; `nil` if it is not a positive integer.
    func deadline() -> Int64? {
        if case .exact(let time) = self[.deadline]?.integer(in: bytes.span), time > 0 { time } else { nil }
    }

    func expiry(pushType: String) throws(JobError) -> Job.Expiry {
        let seconds = try wholeSeconds(.expiry)
        if let seconds, seconds < 0, let value = self[.expiry] { throw fault(value, "expiry is negative") }
        if let time = try wholeSeconds(.expiresAt) { return .at(time) }
        if let seconds { return .after(seconds) }
        let isOnce = isBroadcast || pushType == "voip" || pushType == "pushtotalk"
        return .after(isOnce ? Job.defaultExpiryOnce : Job.defaultExpiry)
    }

    func priority(pushType: String) throws(JobError) -> Int {
        guard let value = self[.priority] else { return pushType == "background" ? 5 : 10 }
        switch value.integer(in: bytes.span) {
        case .exact(1): return 1
        case .exact(5): return 5
        case .exact(10) where pushType == "background":
            throw fault(value, "priority 10 is not allowed for the push type background")
        case .exact(10): return 10
        default: throw fault(value, "priority is not 1, 5 or 10")
        }
    }

    func notBefore() throws(JobError) -> Double? {
        guard let value = self[.notBefore] else { return nil }
        guard let time = value.double(in: bytes.span) else { throw fault(value, "not_before is not a number") }
        guard abs(time) <= JobReader.farthestTime else { throw fault(value, "not_before is out of range") }
        return time
    }

    @inline(__always)
    func app(of names: Set<String>) throws(JobError) -> String? {
        if self[.app] == nil { return nil }
        return try knownApp(of: names)
    }

    private func knownApp(of names: Set<String>) throws(JobError) -> String? {
        guard let app = try name(.app), let value = self[.app] else { return nil }
        guard names.contains(app) else { throw fault(value, "app \"\(app)\" is unknown") }
        return app
    }

    /// 8-4-4-4-12 hex digits of either case, returned in lower case.
    func apnsID() throws(JobError) -> String? {
        guard let text = try name(.apnsID), let value = self[.apnsID] else { return nil }
        guard Notification.isUUID(text) else { throw fault(value, "apns_id is not a UUID") }
        return text.lowercased()
    }

    /// The mark of the daemon; `nil` if it is not a UUID.
    @inline(__always)
    func firstAPNSID() -> String? {
        guard let value = self[.firstAPNSID], value.kind == .string else { return nil }
        let text = value.text(in: bytes.span)
        return Notification.isUUID(text) ? text.lowercased() : nil
    }

    /// The mark of the daemon in a job of a campaign that it has named.
    func campaignMark() -> String? { (try? name(.campaignMark, most: JobReader.longestCampaign)) ?? nil }

    /// Any text; it never becomes a header.
    @inline(__always)
    func trace() throws(JobError) -> String? {
        guard let value = self[.trace] else { return nil }
        return try trace(value)
    }

    private func trace(_ value: JSONSlice) throws(JobError) -> String {
        guard value.kind == .string else { throw fault(value, "trace is not a string") }
        // An escape takes six bytes at most for one byte of the text.
        let most = JobReader.longestTrace
        let text = value.content.count <= 6 * most ? value.text(in: bytes.span) : nil
        guard let text, text.utf8.count <= most else { throw fault(value, "trace is longer than \(most) bytes") }
        return text
    }

    /// A string that becomes a header or names an app.
    ///
    /// A space at either end makes the request malformed (RFC 9113, 8.2.1): APNs resets the stream and gives no reason.
    ///
    /// Inlined up to the test for an absent key: a lookup by a constant is free, and one by a variable copies all members.
    @inline(__always)
    func name(_ key: JobKey, most: Int = JobReader.longestName) throws(JobError) -> String? {
        guard let value = self[key] else { return nil }
        return try name(key, value, most: most)
    }

    private func name(_ key: JobKey, _ value: JSONSlice, most: Int) throws(JobError) -> String {
        guard value.kind == .string else { throw fault(value, "\(key.name) is not a string") }
        let text = value.text(in: bytes.span)
        let count = text.utf8.count
        guard count > 0 else { throw fault(value, "\(key.name) is empty") }
        guard count <= most else { throw fault(value, "\(key.name) is \(count) bytes long, over the \(most) that are allowed") }
        guard !text.unicodeScalars.contains(where: \.isControl) else { throw fault(value, "\(key.name) has a control character") }
        guard text.utf8.first != 0x20, text.utf8.last != 0x20 else {
            throw fault(value, "\(key.name) begins or ends with a space")
        }
        return text
    }
}

extension JobMembers {
    /// The id becomes a header, so it may contain only base64.
    private func broadcast() throws(JobError) -> Job.Target {
        if let collapse = self[.collapseID] { throw fault(collapse, "collapse_id is for tokens, not for a channel") }
        if let topic = self[.topic], !PushTopic.isBundleID(topic.utf8(in: bytes.span)) {
            throw fault(topic, "topic is no bundle id, and a channel belongs to one")
        }
        guard let channel = self[.channel] else { return try named() }
        if let name = self[.channelName] { throw fault(name, "channel and channel_name are both given") }
        let id = try name(.channel, channel, most: JobReader.longestChannel)
        guard ChannelCall.isID(id) else { throw fault(channel, "channel is not base64") }
        return .channel(id, channel.content)
    }

    private func named() throws(JobError) -> Job.Target {
        guard let value = self[.channelName] else { throw .structure("token is missing") }
        return .channelName(try name(.channelName, value, most: ChannelName.longest), value.content)
    }

    /// The key is that of the producer, and `over` and `stop_at` count only beside it.
    private func audience(_ source: JSONSlice) throws(JobError) -> Job.Audience {
        if let other = self[.token] ?? self[.tokens] {
            throw fault(other, "\(self[.token] == nil ? "tokens" : "token") and tokens_from are both given")
        }
        // Its tokens leave when there is room: none of them has a place in the order of the list.
        if let replaces = self[.replaces] { throw fault(replaces, "replaces and tokens_from are both given") }
        var audience = Job.Audience(key: try name(.tokensFrom, source, most: JobReader.longestName))
        if let value = self[.over] {
            guard let seconds = value.double(in: bytes.span) else { throw fault(value, "over is not a number") }
            guard (0...JobReader.longestOver).contains(seconds) else {
                throw fault(value, "over is out of range; expected 0 to \(Int(JobReader.longestOver)) seconds")
            }
            if seconds > 0 { audience.over = seconds }
        }
        if let value = self[.stopAt] {
            guard let share = value.double(in: bytes.span) else { throw fault(value, "stop_at is not a number") }
            guard (0...1).contains(share) else { throw fault(value, "stop_at is out of range; expected 0 to 1") }
            audience.stopAt = share
        }
        return audience
    }

    private func tokens(of list: JSONSlice) throws(JobError) -> [Job.Token] {
        guard list.kind == .array else { throw fault(list, "tokens is not an array") }
        var tokens: [Job.Token] = []
        var (bad, firstBad) = (0, nil as JSONSlice?)
        do {
            var cursor = JSONCursor(at: list.range.lowerBound)
            try cursor.enterArray(in: bytes.span)
            while try cursor.advanceToElement(in: bytes.span) {
                let value = try cursor.value(in: bytes.span)
                let fault = tokenFault(of: value)
                tokens.append(Job.Token(value: value.range, fault: fault))
                if fault == nil { continue }
                bad += 1
                firstBad = firstBad ?? value
            }
        } catch {
            preconditionFailure("an array is no longer JSON: \(error)")
        }
        guard !tokens.isEmpty else { throw fault(list, "tokens is empty") }
        guard tokens.count <= JobReader.mostTokens else {
            throw fault(list, "tokens holds \(tokens.count) tokens, over the \(JobReader.mostTokens) that are allowed")
        }
        if bad == tokens.count, bad > Job.mostSeparateFaults, let firstBad, let fault = tokens[0].fault {
            throw .structure(
                "\(bad) tokens are invalid; first fault: \(fault)", at: offset(of: fault, in: firstBad),
                hint: fault == .notHex ? notHexHint(of: firstBad) : nil)
        }
        return tokens
    }

    private func tokenFault(of value: JSONSlice) -> Job.TokenFault? { isPlainToken(value) ? nil : unusualTokenFault(of: value) }

    /// Whether the value consists of hex digits only, as almost every token does.
    @inline(__always)
    private func isPlainToken(_ value: JSONSlice) -> Bool {
        guard value.kind == .string, !value.hasEscapes else { return false }
        let content = value.content
        return (1...JobReader.longestToken).contains(content.count) && areHex(bytes.span.extracting(content))
    }

    /// A token with escapes, blanks or brackets.
    private func unusualToken(_ value: JSONSlice) throws(JobError) -> Job.Target {
        if let fault = unusualTokenFault(of: value) {
            throw .structure(
                fault.description, at: offset(of: fault, in: value), hint: fault == .notHex ? notHexHint(of: value) : nil)
        }
        return .escapedToken(Job.bareToken(value.text(in: bytes.span)), value.content)
    }

    private func unusualTokenFault(of value: JSONSlice) -> Job.TokenFault? {
        guard value.kind == .string else { return .notString }
        if value.content.isEmpty { return .empty }
        // An escape takes six bytes at most for one character, and at most every second one is not a digit.
        guard value.content.count <= 12 * JobReader.longestToken else { return .tooLong }
        let text = value.utf8(in: bytes.span)
        let digits = text.filter { !Job.isIgnoredInToken($0) }
        if digits.isEmpty { return .empty }
        guard digits.count <= JobReader.longestToken, text.count <= JobReader.longestRawToken else { return .tooLong }
        return areHex(digits.span) ? nil : .notHex
    }

    private func offset(of fault: Job.TokenFault, in value: JSONSlice) -> Int {
        fault == .notHex ? firstNotHex(of: value) : value.range.lowerBound
    }

    /// The offset of the first character that a token may not have. A character takes one byte, or two or six as an escape.
    private func firstNotHex(of value: JSONSlice) -> Int {
        let valid = value.utf8(in: bytes.span).prefix { isHex($0) || Job.isIgnoredInToken($0) }.count
        return (0..<valid).reduce(value.content.lowerBound) { at, _ in
            guard bytes[at] == UInt8(ascii: "\\") else { return at + 1 }
            return at + (bytes[at + 1] == UInt8(ascii: "u") ? 6 : 2)
        }
    }

    /// The likely cause of a token that is not hex; `nil` if it resembles nothing known.
    private func notHexHint(of value: JSONSlice) -> String? {
        let text = value.utf8(in: bytes.span).filter { !Job.isIgnoredInToken($0) }
        if text.starts(with: [0xEF, 0xBB, 0xBF]) { return "it begins with a byte order mark" }
        let whole = String(decoding: text, as: UTF8.self)
        if whole.contains(":APA91") { return "it is a token of Firebase, not of APNs" }
        if whole.hasPrefix("ExponentPushToken[") || whole.hasPrefix("ExpoPushToken[") {
            return "it is a token of Expo, not of APNs"
        }
        let others = Set(text.filter { !isHex($0) })
        if others.isSubset(of: Self.brackets) { return "it has brackets or quotes; expected only the hex digits" }
        if Self.isBase64(text) { return "it looks like base64; expected hex digits" }
        if let last = text.lastIndex(where: { !isHex($0) }), text.count - last > Self.leastTokenDigits {
            let isNumber = text[last] | 0x20 == UInt8(ascii: "x") && text[..<last].last == UInt8(ascii: "0")
            if isNumber || Self.prefixEnds.contains(text[last]) && !others.isSubset(of: Self.separators) {
                return "it has a prefix; expected only the hex digits"
            }
        }
        if others.isSubset(of: Self.separators) { return "it has characters between the digits; expected only the hex digits" }
        return nil
    }

    /// Whether a token is base64: padded, or long enough for 32 bytes and with letters of both cases beyond hex digits.
    private static func isBase64(_ text: [UInt8]) -> Bool {
        let isMixed = text.contains { 0x67...0x7A ~= $0 } && text.contains { 0x47...0x5A ~= $0 }
        let isPadded = text.last == UInt8(ascii: "=") && text.count >= leastPaddedBase64
        guard isPadded || isMixed && text.count >= leastBase64 else { return false }
        let padded = text + Array(repeating: UInt8(ascii: "="), count: (4 - text.count % 4) % 4)
        return Base64.decode(padded) != nil || Base64.decode(text, as: .url) != nil
    }

    /// Digits from which the end of a text is taken for a token, and characters from which one is taken for base64.
    private static let leastTokenDigits = 4
    private static let leastBase64 = 40
    private static let leastPaddedBase64 = 8
    private static let brackets = Set("{}[]()'\"`".utf8)
    private static let separators = Set("-:.,_".utf8)
    /// The last characters of a prefix.
    private static let prefixEnds = Set(":=|#-_/".utf8)

    /// Whether the job itself has the member `aps`.
    private var hasBareAPS: Bool {
        var cursor = JSONCursor()
        guard (try? cursor.enterObject(in: bytes.span)) != nil else { return false }
        while let (name, _) = try? cursor.nextMember(in: bytes.span) {
            if name.equals("aps", in: bytes.span) { return true }
        }
        return false
    }

    @inline(__always)
    private func wholeSeconds(_ key: JobKey) throws(JobError) -> Int64? {
        guard let value = self[key] else { return nil }
        return try wholeSeconds(key, value)
    }

    /// Drops the fraction.
    private func wholeSeconds(_ key: JobKey, _ value: JSONSlice) throws(JobError) -> Int64 {
        if case .exact(let integer) = value.integer(in: bytes.span) { return integer }
        guard let number = value.double(in: bytes.span) else { throw fault(value, "\(key.name) is not a number") }
        guard let seconds = Int64(exactly: number.rounded(.down)) else { throw fault(value, "\(key.name) is beyond 64 bits") }
        return seconds
    }

    private func fault(_ value: JSONSlice, _ text: String) -> JobError { fault(value.range.lowerBound, text) }

    private func fault(_ offset: Int, _ text: String) -> JobError { .structure(text, at: offset) }
}

/// The member of a job from which its push type comes.
enum PushTypeOrigin: Sendable {
    case named, topic, topicOfApp, channel, payload
    /// The default, because a member that would determine it has a mistake.
    case mistaken
    /// The default.
    case none
}

/// Whether the byte is a hex digit of either case.
@inline(__always)
func isHex(_ byte: UInt8) -> Bool {
    byte &- UInt8(ascii: "0") <= 9 || (byte | 0x20) &- UInt8(ascii: "a") <= 5
}

/// Whether all the bytes are hex digits, 16 per step: each job has 64 of them or more.
func areHex(_ bytes: Span<UInt8>) -> Bool {
    var at = 0
    while at &+ 16 <= bytes.count {
        let chunk = unsafe bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: at, as: SIMD16<UInt8>.self)
        guard areHex(chunk) else { return false }
        at &+= 16
    }
    while at < bytes.count {
        guard isHex(bytes[at]) else { return false }
        at &+= 1
    }
    return true
}

/// With inferred types the comparisons would call generic functions.
@inline(__always)
private func areHex(_ chunk: SIMD16<UInt8>) -> Bool {
    let digits = (chunk &- SIMD16<UInt8>(repeating: 0x30)) .<= SIMD16<UInt8>(repeating: 9)
    let letters = ((chunk | SIMD16<UInt8>(repeating: 0x20)) &- SIMD16<UInt8>(repeating: 0x61)) .<= SIMD16<UInt8>(repeating: 5)
    return unsafe unsafeBitCast(digits .| letters, to: UInt128.self) == .max
}
