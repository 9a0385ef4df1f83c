import JSONBytes
import PushPool
import RedisQueue
@testable import gaplessd

/// An element of the queue: read, cut, marked, redacted and recorded.
enum JobFuzz {
    static func run(_ bytes: [UInt8]) throws {
        let suffixed: [String?: PushTopic] = [nil: PushTopic("com.example.app.voip")]
        var reader = JobReader(retryLimit: 3, appNames: ["a"], suffixedTopics: bytes.count % 2 == 0 ? [:] : suffixed)
        _ = JobReader.identity(of: bytes)
        _ = Redaction(isOn: true).job(bytes)
        let unmarked = Job.unmarked(bytes)
        try checkLetter(of: bytes)
        guard let job = try? reader.read(bytes) else { return }
        try checkBounds(job)
        try checkTimes(job)
        let clean = try? reader.read(unmarked)
        try BrokenPromise.unless(clean?.attempts == 0 && clean?.doubtful == 0, "the marks are not removed")
        try BrokenPromise.unless((try? reader.read(Job.onOneLine(bytes))) != nil, "the job on one line is no job")
        let marked = job.markedForRetry(attempts: 3, deadline: 1, doubtful: 4, apnsID: job.apnsID)
        let retried = try? reader.read(marked)
        try BrokenPromise.unless(retried?.attempts == 3 && retried?.isExpired(now: 2) == true, "the marks are not read again")
        try checkParts(job, &reader)
    }

    private static func checkBounds(_ job: Job) throws {
        try BrokenPromise.unless((0...3).contains(job.attempts) && (0...10).contains(job.doubtful), "a mark is out of range")
        try BrokenPromise.unless(job.bytes[job.data].first == UInt8(ascii: "{"), "data is not an object")
        try BrokenPromise.unless([1, 5, 10].contains(job.priority), "priority \(job.priority)")
        for header in [job.topic, job.pushType, job.collapseID, job.apnsID].compactMap(\.self) {
            try BrokenPromise.unless(
                !header.isEmpty && header.utf8.count <= 1100 && !header.unicodeScalars.contains(where: \.isControl),
                "a bad header")
        }
        _ = job.identifierJSON
        _ = (job.notBeforeHint, job.expiryHint)
        _ = job.rewritten(maskedPayload: nil)
    }

    private static func checkTimes(_ job: Job) throws {
        for now in [Int64(-1), 0, 1_700_000_000, 253_402_300_799] {
            _ = job.expiration(now: now)
            _ = job.isExpired(now: now)
        }
        if let notBefore = job.notBefore { _ = Int64(notBefore * 1000) }
    }

    /// Every valid token can be cut out, alone or with its neighbours, and every part is a job for it.
    private static func checkParts(_ job: Job, _ reader: inout JobReader) throws {
        let tokens = job.tokens
        for (index, token) in tokens.enumerated().prefix(20) {
            _ = job.text(of: token)
            let single = job.singleParts([token.value])?.parts(of: job.bytes).first ?? job.bytes
            let isJob = (try? reader.read(single)) != nil
            try BrokenPromise.unless(isJob == (token.fault == nil), "the single-token form of token \(index)")
        }
        guard let (parts, _) = job.split(into: 3, bytes: 1000) else { return }
        var read: [String] = []
        // A part with only bad tokens is a dead letter.
        for part in parts.parts(of: job.bytes) {
            guard let some = try? reader.read(part) else { continue }
            read += some.tokens.filter { $0.fault == nil }.map { some.text(of: $0) }
        }
        let valid = tokens.filter { $0.fault == nil }.map { job.text(of: $0) }
        try BrokenPromise.unless(read == valid, "the parts have other tokens")
    }

    private static func checkLetter(of bytes: [UInt8]) throws {
        let identity = JobReader.identity(of: bytes)
        let letter = DeadLetter(
            reason: "r", identifier: identity.identifier, token: identity.token, trace: identity.trace, attempts: 1, at: 7,
            worker: "w", job: bytes)
        try BrokenPromise.unless(DeadLetter(record: letter.record()) == letter, "the dead letter changes the job")
    }
}

/// JSON text as a tree and as slices.
enum JSONFuzz {
    static func run(_ bytes: [UInt8]) throws {
        var cursor = JSONCursor()
        if let slice = try? cursor.value(in: bytes.span) {
            _ = slice.integer(in: bytes.span)
            _ = slice.double(in: bytes.span)
            if slice.kind == .string { _ = slice.utf8(in: bytes.span) }
        }
        guard let tree = try? JSONValue.parse(bytes) else { return }
        // Trees with the same text are equal, apart from the offsets of their members.
        let text = tree.bytes
        try BrokenPromise.unless((try? JSONValue.parse(text))?.bytes == text, "the tree is written as another tree")
        let escaped = try? JSONValue.parse(bytes.escapingUnprintable())
        try BrokenPromise.unless(escaped?.bytes == text, "escapes change the tree")
        let decoded = Base64.decode(Base64.encode(bytes))
        try BrokenPromise.unless(decoded == bytes, "base64 changes the bytes")
    }
}

/// Payloads that the word filter searches and masks.
enum FilterFuzz {
    private static let words = ["bad", "*ugly*", "wor*", "Ä", "\u{1F600}x", "a"]
    private static let mask = WordFilter(words, action: .mask)
    private static let drop = WordFilter(words, action: .drop)

    static func run(_ bytes: [UInt8]) throws {
        var cursor = JSONCursor()
        // The filter searches the payload of a job, which is a valid object.
        guard let payload = try? cursor.value(in: bytes.span), payload.kind == .object else { return }
        let masked = mask.judge(payload.range, of: bytes)
        let isStopped = drop.judge(payload.range, of: bytes) == .stopped
        guard case .masked(let new) = masked else {
            return try BrokenPromise.unless(masked == .clean && !isStopped, "the actions differ in their matches")
        }
        try BrokenPromise.unless(isStopped, "the actions differ in their matches")
        try BrokenPromise.unless(new.count <= payload.range.count, "the masked payload is longer")
        var again = JSONCursor()
        let value = try? again.value(in: new.span)
        try BrokenPromise.unless(value?.range == 0..<new.count, "the masked payload is not JSON")
    }
}
