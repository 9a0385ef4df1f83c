import JSONBytes
import Testing

@Suite("Unprintable characters")
struct ControlCharacterTests {
    @Test func `Escaping them changes no value and leaves none`() throws {
        let scalars: [Unicode.Scalar] = [
            "\u{AD}", "\u{61C}", "\u{180E}", "\u{200B}", "\u{200D}", "\u{200E}", "\u{202E}", "\u{2066}", "\u{2069}", "\u{FEFF}",
            "\u{FFF9}", "\u{7F}", "\u{80}", "\u{9B}", "\u{9F}", "\u{A0}", "\u{2027}", "\u{2028}", "\u{2029}", "\u{202A}", "é",
            "€", "😀", "a",
        ]
        for first in scalars {
            for second in scalars {
                let json = Array("{\"\(first)\(second)\": [\"\(second)\", \"\(first)\"]}".utf8)
                let escaped = json.escapingUnprintable()
                let (before, after) = (try JSONValue.parse(json), try JSONValue.parse(escaped))
                #expect(before == after)
                let unprintable = String(decoding: escaped, as: UTF8.self).unicodeScalars.filter { $0.isUnprintable }
                #expect(unprintable.isEmpty)
            }
        }
    }

    @Test(
        arguments: [
            "\u{61C}", "\u{200E}", "\u{200F}", "\u{202A}", "\u{202E}", "\u{2066}", "\u{2069}", "\u{200B}", "\u{2060}", "\u{FEFF}",
        ] as [Unicode.Scalar])
    func `Bidirectional and other invisible controls mislead a terminal, and the log keeps them`(scalar: Unicode.Scalar) {
        #expect(scalar.misleadsTerminals && !scalar.isUnprintable)
        let text = Array("\"\(scalar)\"".utf8)
        #expect(text.escapingUnprintable() == text)
    }

    @Test func `Joiners and letters of right-to-left scripts mislead no terminal`() {
        for text in ["👩‍👧", "می‌خواهم", "שלום", "مرحبا"] {
            #expect(text.unicodeScalars.allSatisfy { !$0.misleadsTerminals })
        }
    }

    @Test func `Text without them, and bytes that are cut, stay unchanged`() {
        for text in ["{}", "é«»“”\n\t", "\u{1}"] { #expect(Array(text.utf8).escapingUnprintable() == Array(text.utf8)) }
        for bytes: [UInt8] in [[0xC2], [0xE2], [0xE2, 0x80], []] { #expect(bytes.escapingUnprintable() == bytes) }
    }
}
