/// Where characters begin and end in bytes that may be none (The Unicode Standard, table 3-7).
enum UTF8Scalars {
    /// How many bytes the scalar that begins there takes; 0 where none does.
    static func length(in bytes: ArraySlice<UInt8>, at: Int) -> Int {
        func follows(_ offset: Int, _ range: ClosedRange<UInt8> = 0x80...0xBF) -> Bool {
            at + offset < bytes.endIndex && range.contains(bytes[at + offset])
        }
        switch bytes[at] {
        case 0..<0x80: return 1
        case 0xC2...0xDF: return follows(1) ? 2 : 0
        case 0xE0: return follows(1, 0xA0...0xBF) && follows(2) ? 3 : 0
        case 0xED: return follows(1, 0x80...0x9F) && follows(2) ? 3 : 0
        case 0xE1...0xEF: return follows(1) && follows(2) ? 3 : 0
        case 0xF0: return follows(1, 0x90...0xBF) && follows(2) && follows(3) ? 4 : 0
        case 0xF1...0xF3: return follows(1) && follows(2) && follows(3) ? 4 : 0
        case 0xF4: return follows(1, 0x80...0x8F) && follows(2) && follows(3) ? 4 : 0
        default: return 0
        }
    }

    /// C0, DEL and C1, which begins with C2 in UTF-8.
    static func isControl(_ scalar: ArraySlice<UInt8>) -> Bool {
        switch scalar[scalar.startIndex] {
        case 0..<0x20, 0x7F: true
        case 0xC2: scalar[scalar.startIndex + 1] < 0xA0
        default: false
        }
    }
}
