internal import JSONBytes
import RedisQueue

// The split of a job with `tokens`. `Splits` decides when, and into how many.
extension Job {
    /// The most tokens of one job that go out together. A job with more tokens is first split into jobs of this size.
    static let tokensTogether = 250

    /// The most bad tokens of one job that become a dead letter each.
    static let mostSeparateFaults = 10

    /// Splits a job with `tokens`: into a job per token, so that each is claimed, pushed, evaluated and retried separately and
    /// survives a crash separately; or first into jobs with fewer tokens; or into its bad and its good tokens if too many are
    /// bad.
    ///
    /// - Parameters:
    ///   - places: the most jobs per token; the other tokens remain one job.
    ///   - bytes: the most bytes of them, except that one job is always made.
    /// - Returns: the parts, and how many tokens go out with the next claim; `nil` for a job with one token.
    func split(into places: Int, bytes most: Int) -> (parts: JobParts, singles: Int)? {
        guard case .tokens(let tokens) = target, let frame else { return nil }
        if tokens.count(where: { $0.fault != nil }) > Self.mostSeparateFaults {
            return (JobParts(texts: [keeping { $0.fault != nil }, keeping { $0.fault == nil }]), 0)
        }
        let frameBytes = frame.byteCount + 16
        if tokens.count > Self.tokensTogether {
            // Each part has the frame again, which may be larger than its tokens.
            let parts = min((tokens.count - 1) / Self.tokensTogether + 1, max(2, 3 * bytes.count / frameBytes))
            let size = (tokens.count - 1) / parts + 1
            let ranges = stride(from: 0, to: tokens.count, by: size).map { $0..<min($0 + size, tokens.count) }
            return chunkParts(ranges).map { ($0, 0) }
        }
        let singles = min(places, max(1, most / frameBytes))
        if tokens.count <= singles { return singleParts(tokens.map(\.value)).map { ($0, tokens.count) } }
        return chunkParts([0..<singles, singles..<tokens.count]).map { ($0, singles) }
    }

    /// The mean size of a single-token form of a job with `tokens`.
    var bytesPerToken: Int {
        guard let frame, case .tokens(let tokens) = target, let first = tokens.first, let last = tokens.last else { return 0 }
        return frame.byteCount + 8 + (last.value.upperBound - first.value.lowerBound) / tokens.count
    }

    /// Equal for a job with `tokens` and for the rest of it after a split.
    var restKey: Int { restKey(through: tokens.count) }

    /// The key of the job with only this many of its tokens.
    func restKey(through count: Int) -> Int {
        var hasher = Hasher()
        if count > 0 { hasher.combine(bytes[tokens[count - 1].value]) }
        hasher.combine(frame?.head)
        hasher.combine(frame?.tail)
        return hasher.finalize()
    }

    /// Returns the job with only the tokens for which `isWanted` holds.
    private func keeping(_ isWanted: (Token) -> Bool) -> [UInt8] {
        guard case .tokens(let tokens) = target, let first = tokens.first, let last = tokens.last else { return bytes }
        let kept = tokens.lazy.filter(isWanted).map { bytes[$0.value] }.joined(separator: [UInt8(ascii: ",")])
        return Array(bytes[..<first.value.lowerBound]) + kept + bytes[last.value.upperBound...]
    }

    /// Returns the single-token forms with these elements: in each, a member `token` with the bytes of the element replaces
    /// `tokens`.
    func singleParts(_ elements: [Range<Int>]) -> JobParts? {
        guard let frame else { return nil }
        return JobParts(prefix: frame.head + Array("\"token\":".utf8), ranges: elements, suffix: frame.tail)
    }

    /// Returns the same job for each of these parts of its tokens. No part is empty.
    func chunkParts(_ ranges: [Range<Int>]) -> JobParts? {
        guard case .tokens(let tokens) = target, let frame else { return nil }
        let elements = ranges.map { tokens[$0.lowerBound].value.lowerBound..<tokens[$0.upperBound - 1].value.upperBound }
        return JobParts(
            prefix: frame.head + Array("\"tokens\":[".utf8), ranges: elements, suffix: [UInt8(ascii: "]")] + frame.tail)
    }
}

extension Job.Frame {
    /// Most bytes around `tokens`. Every part has them again.
    static let mostBytes = 64 << 10

    var byteCount: Int { head.count + tail.count }

    /// Returns `nil` for a job without `tokens` and `tokens_from`. From `mostBytes` on, the unknown members are left out.
    init?(of members: borrowing JobMembers) {
        let bytes = members.bytes
        guard members[.tokens] != nil || members[.tokensFrom] != nil, let place = members.tokensMember else { return nil }
        head = Array(bytes[..<place.lowerBound])
        tail = Array(bytes[place.upperBound...])
        // Another target, also `null`, would duplicate or replace the token that is inserted.
        let isBulky = byteCount > Self.mostBytes
        guard members.targetMembers > 1 || isBulky, let object = JobObject(bytes) else { return }
        let kept = object.members.lastIndex { $0.key == .tokens || $0.key == .tokensFrom }
        let edits = object.removals { index, member in
            index != kept && (member.key?.isTarget ?? isBulky)
        }
        head = JobObject.replacing(edits.filter { $0.0.upperBound <= place.lowerBound }, in: bytes, within: 0..<place.lowerBound)
        tail = JobObject.replacing(
            edits.filter { $0.0.lowerBound >= place.upperBound }, in: bytes, within: place.upperBound..<bytes.count)
    }
}
