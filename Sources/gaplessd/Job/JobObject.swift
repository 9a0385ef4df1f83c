internal import JSONBytes

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

    func removing(_ isUnwanted: (Member) -> Bool) -> [UInt8] {
        Self.replacing(removals { isUnwanted($1) }, in: bytes)
    }

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
