import JSONBytes

@testable import gaplessd

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
