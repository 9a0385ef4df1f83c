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
