/// Simple case folding (The Unicode Standard, section 5.18), from the tables of Swift's library.
///
/// Every scalar becomes one scalar, so that a match has the length of its word. Therefore `ß` is not `ss`, and the dotted and
/// dotless `i` of Turkish are different letters.
struct CaseFolding: Sendable {
    /// Shared, because it takes some milliseconds to create.
    static let simple = CaseFolding()

    /// The pages of 256 scalars that contain letters with cases; elsewhere each scalar is its own form.
    static let casedPages: [UInt32] =
        Array(0x00...0x1F) + [0x21, 0x24, 0x2C, 0x2D, 0xA6, 0xA7, 0xAB, 0xFF, 0x104, 0x105, 0x10C, 0x10D, 0x118, 0x16E, 0x1E9]

    /// For each page the start of its forms in `forms`, or -1.
    private var places = [Int](repeating: -1, count: 0x1EA)
    private var forms: [UInt32] = []

    private init() {
        for page in Self.casedPages {
            let first = page << 8
            let scalars = first...first + 0xFF
            let folded = scalars.map { Unicode.Scalar($0).map(Self.form)?.value ?? $0 }
            if folded.elementsEqual(scalars) { continue }
            places[Int(page)] = forms.count
            forms += folded
        }
    }

    @inline(__always)
    subscript(scalar: UInt32) -> UInt32 {
        let page = Int(scalar >> 8)
        guard page < places.count, places[page] >= 0 else { return scalar }
        return forms[places[page] + Int(scalar & 0xFF)]
    }

    /// Maps to upper case and back to lower case if each is one scalar; this also equates `σ` and `ς`.
    static func form(of scalar: Unicode.Scalar) -> Unicode.Scalar {
        // Its upper case is the plain I.
        if scalar == "\u{131}" { return scalar }
        let upper = single(scalar.properties.uppercaseMapping) ?? scalar
        return single(upper.properties.lowercaseMapping) ?? scalar
    }

    private static func single(_ text: String) -> Unicode.Scalar? {
        let scalars = text.unicodeScalars
        return scalars.count == 1 ? scalars.first : nil
    }
}

extension Unicode.Scalar {
    /// Whether it continues an adjacent word: a letter, a mark or a digit of a script that separates words by spaces.
    var joinsWords: Bool {
        if isASCII { return properties.isAlphabetic || ("0"..."9").contains(self) }
        if Self.unspaced.contains(where: { $0.contains(value) }) { return false }
        switch properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: return true
        case .nonspacingMark, .spacingMark, .enclosingMark: return true
        case .decimalNumber, .letterNumber, .otherNumber: return true
        default: return false
        }
    }

    /// Scripts without spaces between words, and Korean, whose particles follow a word without a space.
    private static let unspaced: [ClosedRange<UInt32>] = [
        0x0E00...0x0FFF,  // Thai, Lao, Tibetan
        0x1000...0x109F, 0x1780...0x17FF,  // Burmese, Khmer
        0x1100...0x11FF, 0x3130...0x318F, 0xA960...0xA97F, 0xAC00...0xD7FF,  // Hangul
        0x3005...0x3007, 0x3040...0x312F, 0x31F0...0x31FF, 0xFF66...0xFFDC,  // Kana, Bopomofo, half-width forms
        0x3400...0x4DBF, 0x4E00...0x9FFF, 0xF900...0xFAFF, 0x20000...0x3FFFF,  // Han
    ]
}
