/// Whether the byte is a hex digit of either case.
@inline(__always)
func isHex(_ byte: UInt8) -> Bool {
    byte &- UInt8(ascii: "0") <= 9 || (byte | 0x20) &- UInt8(ascii: "a") <= 5
}

/// Whether all the bytes are hex digits, eight per step: each job has 64 of them or more.
func areHex(_ bytes: Span<UInt8>) -> Bool {
    var at = 0
    while at &+ 8 <= bytes.count {
        guard areHex(unsafe bytes.bytes.unsafeLoadUnaligned(fromByteOffset: at, as: UInt64.self)) else { return false }
        at &+= 8
    }
    while at < bytes.count {
        guard isHex(bytes[at]) else { return false }
        at &+= 1
    }
    return true
}

/// The top bit of each byte is the result of a comparison. With all bytes below 0x80 no sum carries into its neighbour.
@inline(__always)
private func areHex(_ word: UInt64) -> Bool {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let tops = ones &* 0x80
    let lower = word | (ones &* 0x20)
    let isFrom0 = (word | tops) &- (ones &* 0x30)
    let isPast9 = word &+ (ones &* (0x7F - 0x39))
    let isFromA = (lower | tops) &- (ones &* 0x61)
    let isPastF = lower &+ (ones &* (0x7F - 0x66))
    return ((isFrom0 & ~isPast9) | (isFromA & ~isPastF)) & ~word & tops == tops
}
