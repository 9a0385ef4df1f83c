internal import JSONBytes

// New jobs out of old bytes: a mark is set or taken out, `tokens` becomes fewer, and every other byte stays what it was.
extension Job {
    /// The job as it waits for its resend.
    /// - Parameters:
    ///   - attempts: the retry marker from now on.
    ///   - deadline: Unix seconds; `nil` leaves the mark as it is, there or not.
    ///   - doubtful: uncounted resends so far that APNs may have had; 0 leaves the mark as it is.
    ///   - index: of a job with `tokens`, the one that the resend is for: the job is then in its single-token form. `nil` marks the
    ///     job as a whole.
    func markedForRetry(attempts: Int, deadline: Int64?, doubtful: Int = 0, tokenAt index: Int? = nil) -> [UInt8] {
        var marks = [(key: JobKey.retrying, number: Int64(attempts))]
        if let deadline { marks.append((.deadline, deadline)) }
        if doubtful > 0 { marks.append((.doubtful, Int64(doubtful))) }
        return Self.setting(marks, in: index.map { single(tokenAt: $0) } ?? bytes)
    }

    /// The job as it goes back uncounted after sends: neither the number of those that APNs may have had nor the first deadline is
    /// forgotten.
    func markedAsDoubtful(_ count: Int, deadline: Int64?) -> [UInt8] {
        var marks = count > 0 ? [(key: JobKey.doubtful, number: Int64(count))] : []
        if let deadline { marks.append((.deadline, deadline)) }
        return Self.setting(marks, in: bytes)
    }

    /// The job without the daemon's marks.
    func unmarked() -> [UInt8] { Self.unmarked(bytes) }

    /// As above, of any bytes: those that are no JSON object come back as they are.
    static func unmarked(_ bytes: [UInt8]) -> [UInt8] {
        guard let object = JobObject(bytes) else { return bytes }
        return object.removing { [.retrying, .deadline, .doubtful].contains($0.key) }
    }

    /// The job in its single-token form: the member `tokens` is replaced by a `token`, with the bytes that the element has.
    /// A job that has `token` is in that form already.
    func single(tokenAt index: Int) -> [UInt8] {
        guard case .tokens(let tokens) = target, let frame else { return bytes }
        return frame.head + Array("\"token\":".utf8) + bytes[tokens[index].value] + frame.tail
    }

    /// The same job for some of its tokens, which stand between each other as they did.
    func chunk(_ range: Range<Int>) -> [UInt8] {
        guard case .tokens(let tokens) = target, let frame, !range.isEmpty else { return bytes }
        let elements = tokens[range.lowerBound].value.lowerBound..<tokens[range.upperBound - 1].value.upperBound
        return frame.head + Array("\"tokens\":[".utf8) + bytes[elements] + [UInt8(ascii: "]")] + frame.tail
    }

    /// The same JSON on one line: only between its tokens can a line break stand, for a string holds none unescaped.
    static func onOneLine(_ bytes: [UInt8]) -> [UInt8] {
        // Most producers write jobs on one line: then the bytes are handed on as they are.
        let isLineBreak = { (byte: UInt8) in byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") }
        guard bytes.contains(where: isLineBreak) else { return bytes }
        return bytes.map { isLineBreak($0) ? UInt8(ascii: " ") : $0 }
    }

    /// What `log_redact` lets through: the member `data` is gone, of each device token stand its first 8 hex digits, `null` is what
    /// stands where no string was. Of bytes that are no JSON object only their number is told.
    static func redacted(_ bytes: [UInt8]) -> [UInt8] {
        guard let object = JobObject(bytes) else { return Array(bytes.count.counted("byte").utf8) }
        let edits = object.members.compactMap { member in
            switch member.key {
            case .token: (member.value.range, redactedToken(member.value, of: bytes))
            case .tokens: (member.value.range, redactedTokens(member.value, of: bytes))
            default: nil
            }
        }
        let cut = JobObject.replacing(edits, in: bytes)
        return JobObject(cut)?.removing { $0.key == .data } ?? []
    }

    private static func redactedTokens(_ list: JSONSlice, of bytes: [UInt8]) -> [UInt8] {
        var cursor = JSONCursor(at: list.range.lowerBound)
        guard list.kind == .array, (try? cursor.enterArray(in: bytes.span)) != nil else { return Array("null".utf8) }
        var text = [UInt8(ascii: "[")]
        while (try? cursor.advanceToElement(in: bytes.span)) == true, let value = try? cursor.value(in: bytes.span) {
            if text.count > 1 { text.append(UInt8(ascii: ",")) }
            text += redactedToken(value, of: bytes)
        }
        return text + [UInt8(ascii: "]")]
    }

    private static func redactedToken(_ value: JSONSlice, of bytes: [UInt8]) -> [UInt8] {
        guard value.kind == .string else { return Array("null".utf8) }
        let quote = [UInt8(ascii: "\"")]
        let text = value.hasEscapes ? value.utf8(in: bytes.span)[...] : bytes[value.content]
        return quote + text.prefix(8).prefix(while: isHex) + quote
    }

    /// The bytes with these marks, after one walk over them.
    private static func setting(_ marks: [(key: JobKey, number: Int64)], in bytes: [UInt8]) -> [UInt8] {
        guard let object = JobObject(bytes) else { return bytes }
        var edits: [(Range<Int>, [UInt8])] = []
        var added: [UInt8] = []
        for mark in marks {
            if let member = object.members.last(where: { $0.key == mark.key }) {
                edits.append((member.value.range, Array("\(mark.number)".utf8)))
            } else {
                let comma = object.members.isEmpty && added.isEmpty ? "" : ","
                added += Array("\(comma)\"\(mark.key.name)\":\(mark.number)".utf8)
            }
        }
        edits.sort { $0.0.lowerBound < $1.0.lowerBound }
        // Right behind the last value, so that `unmarked` finds the white space before the brace as it was.
        let end = object.members.last?.value.range.upperBound ?? object.start
        return JobObject.replacing(edits + [(end..<end, added)], in: bytes)
    }
}

extension Job.Frame {
    /// `nil` for a job without `tokens`.
    init?(of members: borrowing JobMembers) {
        let bytes = members.bytes
        guard members[.tokens] != nil, let place = members.tokensMember else { return nil }
        head = Array(bytes[..<place.lowerBound])
        tail = Array(bytes[place.upperBound...])
        // Another `token` or `tokens`, be it `null`, would stand beside the token that is put in.
        guard members.tokenMembers > 1, let object = JobObject(bytes) else { return }
        let kept = object.members.lastIndex { $0.key == .tokens }
        let edits = object.removals { index, member in
            index != kept && (member.key == .token || member.key == .tokens)
        }
        head = JobObject.replacing(edits.filter { $0.0.upperBound <= place.lowerBound }, in: bytes, within: 0..<place.lowerBound)
        tail = JobObject.replacing(
            edits.filter { $0.0.lowerBound >= place.upperBound }, in: bytes, within: place.upperBound..<bytes.count)
    }
}
