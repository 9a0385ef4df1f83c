/// Whether the byte is a hex digit of either case.
@inline(__always)
func isHex(_ byte: UInt8) -> Bool {
    byte &- UInt8(ascii: "0") <= 9 || (byte | 0x20) &- UInt8(ascii: "a") <= 5
}

/// Whether all the bytes are hex digits, 16 per step: each job has 64 of them or more.
func areHex(_ bytes: Span<UInt8>) -> Bool {
    var at = 0
    while at &+ 16 <= bytes.count {
        let chunk = unsafe bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: at, as: SIMD16<UInt8>.self)
        guard areHex(chunk) else { return false }
        at &+= 16
    }
    while at < bytes.count {
        guard isHex(bytes[at]) else { return false }
        at &+= 1
    }
    return true
}

/// With inferred types the comparisons would call generic functions.
@inline(__always)
private func areHex(_ chunk: SIMD16<UInt8>) -> Bool {
    let digits = (chunk &- SIMD16<UInt8>(repeating: 0x30)) .<= SIMD16<UInt8>(repeating: 9)
    let letters = ((chunk | SIMD16<UInt8>(repeating: 0x20)) &- SIMD16<UInt8>(repeating: 0x61)) .<= SIMD16<UInt8>(repeating: 5)
    return unsafe unsafeBitCast(digits .| letters, to: UInt128.self) == .max
}
