/// SHA-1 (FIPS 180-4) in hexadecimal: the name by which EVALSHA calls a script. Nothing secret depends on it.
func sha1Hex(_ text: String) -> String {
    var message = Array(text.utf8)
    let bits = UInt64(message.count) * 8
    message.append(0x80)
    while message.count % 64 != 56 { message.append(0) }
    for shift in stride(from: 56, through: 0, by: -8) { message.append(UInt8(truncatingIfNeeded: bits >> UInt64(shift))) }

    var state: [UInt32] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0]
    for block in stride(from: 0, to: message.count, by: 64) { compress(message[block..<(block + 64)], into: &state) }
    return state.map { word in
        let digits = String(word, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }.joined()
}

private func compress(_ block: ArraySlice<UInt8>, into state: inout [UInt32]) {
    func rotated(_ word: UInt32, by count: UInt32) -> UInt32 { word << count | word >> (32 - count) }

    var words = stride(from: block.startIndex, to: block.endIndex, by: 4).map { at in
        block[at..<(at + 4)].reduce(0) { $0 << 8 | UInt32($1) }
    }
    for t in 16..<80 { words.append(rotated(words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16], by: 1)) }
    var (a, b, c, d, e) = (state[0], state[1], state[2], state[3], state[4])
    for t in 0..<80 {
        let (mix, constant): (UInt32, UInt32) =
            switch t {
            case ..<20: (b & c | ~b & d, 0x5a82_7999)
            case ..<40: (b ^ c ^ d, 0x6ed9_eba1)
            case ..<60: (b & c | b & d | c & d, 0x8f1b_bcdc)
            default: (b ^ c ^ d, 0xca62_c1d6)
            }
        let next = rotated(a, by: 5) &+ mix &+ e &+ constant &+ words[t]
        (a, b, c, d, e) = (next, a, rotated(b, by: 30), c, d)
    }
    for (index, word) in [a, b, c, d, e].enumerated() { state[index] &+= word }
}
