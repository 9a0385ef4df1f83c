internal import JSONBytes
import PushPool

// New jobs from old bytes: marks are set or removed, and every other byte stays unchanged.
extension Job {
    /// Returns the job that waits for its resend.
    ///
    /// - Parameters:
    ///   - attempts: the new retry marker.
    ///   - deadline: Unix seconds; `nil` leaves the mark unchanged.
    ///   - doubtful: uncounted resends that APNs may have received; 0 leaves the mark unchanged.
    ///   - apnsID: of APNs' first response, for a job without one; ignored if it is no UUID.
    func markedForRetry(attempts: Int, deadline: Int64?, doubtful: Int = 0, apnsID: String? = nil) -> [UInt8] {
        var marks = [(key: JobKey.retrying, json: "\(attempts)")]
        if let deadline { marks.append((.deadline, "\(deadline)")) }
        if doubtful > 0 { marks.append((.doubtful, "\(doubtful)")) }
        if let apnsID, self.apnsID == nil, Notification.isUUID(apnsID) { marks.append((.firstAPNSID, "\"\(apnsID)\"")) }
        return Self.setting(marks + campaignMarks, in: element)
    }

    /// Returns the job for an uncounted return to the list after sends. It keeps the number of sends that APNs may have received,
    /// and the first deadline.
    func markedAsDoubtful(_ count: Int, deadline: Int64?) -> [UInt8] {
        var marks = count > 0 ? [(key: JobKey.doubtful, json: "\(count)")] : []
        if let deadline { marks.append((.deadline, "\(deadline)")) }
        return Self.setting(marks + campaignMarks, in: element)
    }

    private var campaignMarks: [(key: JobKey, json: String)] {
        campaignMark.map { [(.campaignMark, Self.json($0))] } ?? []
    }

    private static func json(_ text: String) -> String {
        var json: [UInt8] = []
        json.appendJSONString(text)
        return String(decoding: json, as: UTF8.self)
    }

    /// Returns the job as it leaves its chunk: with its rank, and the channel of its name.
    static func marked(rank: UInt64?, channel: String? = nil, _ bytes: [UInt8]) -> [UInt8] {
        var marks: [(key: JobKey, json: String)] = []
        if let rank { marks.append((.rank, "\(rank)")) }
        if let channel { marks.append((.channelMark, json(channel))) }
        return marks.isEmpty ? bytes : setting(marks, in: bytes)
    }

    /// Returns the bytes without the marks of the daemon, or unchanged if they are not a JSON object. A job that is requeued is a
    /// new one at the end of the list: it gets a rank there, as any other.
    static func unmarked(_ bytes: [UInt8]) -> [UInt8] {
        JobObject(bytes)?.removing { $0.key?.isMark == true } ?? bytes
    }

    /// Returns the bytes without the marks of its slot, for the log.
    static func asReceived(_ bytes: [UInt8]) -> [UInt8] {
        JobObject(bytes)?.removing { $0.key == .rank || $0.key == .channelMark } ?? bytes
    }

    /// Returns the same JSON for people: on one line, with unprintable characters escaped. Line breaks occur only between JSON
    /// tokens.
    static func onOneLine(_ bytes: [UInt8]) -> [UInt8] {
        let isLineBreak = { (byte: UInt8) in byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") }
        let line = bytes.contains(where: isLineBreak) ? bytes.map { isLineBreak($0) ? UInt8(ascii: " ") : $0 } : bytes
        return line.escapingUnprintable()
    }

    /// Returns the bytes with these marks.
    private static func setting(_ marks: [(key: JobKey, json: String)], in bytes: [UInt8]) -> [UInt8] {
        guard let object = JobObject(bytes) else { return bytes }
        var edits: [(Range<Int>, [UInt8])] = []
        var added: [UInt8] = []
        for mark in marks {
            if let member = object.members.last(where: { $0.key == mark.key }) {
                edits.append((member.value.range, Array(mark.json.utf8)))
            } else {
                let comma = object.members.isEmpty && added.isEmpty ? "" : ","
                added += Array("\(comma)\"\(mark.key.name)\":\(mark.json)".utf8)
            }
        }
        edits.sort { $0.0.lowerBound < $1.0.lowerBound }
        // Directly after the last value, so that `unmarked` restores the white space before the brace.
        let end = object.members.last?.value.range.upperBound ?? object.start
        return JobObject.replacing(edits + [(end..<end, added)], in: bytes)
    }
}

/// The members of a JSON object, and edits that leave all other bytes unchanged.
struct JobObject {
    struct Member {
        var key: JobKey?
        /// From the first quote of the key to the end of the value.
        var range: Range<Int>
        var value: JSONSlice
    }

    let bytes: [UInt8]
    /// The offset after the opening brace.
    private(set) var start = 0
    private(set) var members: [Member] = []

    /// Returns `nil` for bytes that are not a JSON object.
    init?(_ bytes: [UInt8]) {
        self.bytes = bytes
        let span = bytes.span
        var cursor = JSONCursor()
        do {
            try cursor.enterObject(in: span)
            start = cursor.position
            while let (key, value) = try cursor.nextMember(in: span) {
                let range = key.range.lowerBound..<value.range.upperBound
                members.append(Member(key: JobKey(key, in: span), range: range, value: value))
            }
            try cursor.finish(in: span)
        } catch {
            return nil
        }
    }

    func removing(_ isUnwanted: (Member) -> Bool) -> [UInt8] { Self.replacing(removals { isUnwanted($1) }, in: bytes) }

    /// Returns the edits that remove the members. Each takes one comma with it: the comma before it, or the one after it if no
    /// member remains before it.
    func removals(_ isUnwanted: (Int, Member) -> Bool) -> [(Range<Int>, [UInt8])] {
        var edits: [(Range<Int>, [UInt8])] = []
        var isAnyKept = false
        for (index, member) in members.enumerated() {
            if !isUnwanted(index, member) {
                isAnyKept = true
            } else if isAnyKept {
                edits.append((members[index - 1].range.upperBound..<member.range.upperBound, []))
            } else {
                let end = index + 1 < members.count ? members[index + 1].range.lowerBound : member.range.upperBound
                edits.append((member.range.lowerBound..<end, []))
            }
        }
        return edits
    }

    /// Returns the bytes with each range replaced. The ranges are in order and do not overlap.
    static func replacing(_ edits: [(Range<Int>, [UInt8])], in bytes: [UInt8], within: Range<Int>? = nil) -> [UInt8] {
        let whole = within ?? 0..<bytes.count
        var result: [UInt8] = []
        result.reserveCapacity(whole.count + 64)
        var from = whole.lowerBound
        for (range, text) in edits {
            result += bytes[from..<range.lowerBound]
            result += text
            from = range.upperBound
        }
        return result + bytes[from..<whole.upperBound]
    }
}
