import JSONBytes

/// Returns the cursor's error for a whole text whose value it passes at once, or `nil`.
func fault(in bytes: [UInt8]) -> JSONError? {
    do {
        var cursor = JSONCursor()
        _ = try cursor.value(in: bytes.span)
        try cursor.finish(in: bytes.span)
        return nil
    } catch {
        return error
    }
}

func fault(in text: String) -> JSONError? { fault(in: Array(text.utf8)) }

/// The one value of a text that is known to be good.
func slice(of bytes: [UInt8]) throws -> JSONSlice {
    var cursor = JSONCursor()
    return try cursor.value(in: bytes.span)
}

/// Asks the one value of a text that is known to be good.
func asking<Answer>(_ text: String, _ question: (JSONSlice, Span<UInt8>) -> Answer) throws -> Answer {
    let bytes = Array(text.utf8)
    return question(try slice(of: bytes), bytes.span)
}

/// SplitMix64 (Steele, Lea, Flood 2014): a generator that a seed replays.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
