import JSONBytes

@testable import gaplessd

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
