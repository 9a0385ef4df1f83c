/// The short codes of HPACK's Huffman code (RFC 7541, appendix B): those of 5 to 8 bits, which letters, digits and the usual
/// punctuation have.
struct HuffmanCode {
    private(set) var symbol: UInt8 = 0
    /// The length of the code in bits; 0 for the start of a longer code.
    private(set) var length: UInt8 = 0

    /// The codes by the first 8 bits of a text. The code is canonical: a shorter code is less than a longer one, and codes of
    /// the same length are consecutive numbers. Therefore, two values are left for all longer codes.
    static let table: InlineArray<256, HuffmanCode> = {
        let symbols: [(length: UInt8, StaticString)] = [
            (5, "012aceiost"), (6, " %-./3456789=A_bdfghlmnpru"), (7, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"), (8, "&*,;XZ"),
        ]
        var table = InlineArray<256, HuffmanCode>(repeating: HuffmanCode())
        var place = 0
        for (length, symbols) in symbols {
            for symbol in symbols.description.utf8 {
                for _ in 0..<1 << (8 - length) {
                    table[place] = HuffmanCode(symbol: symbol, length: length)
                    place += 1
                }
            }
        }
        return table
    }()
}
