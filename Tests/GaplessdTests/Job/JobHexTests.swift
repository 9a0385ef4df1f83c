import Testing

@testable import gaplessd

@Suite("Hex digits")
struct JobHexTests {
    @Test func `every byte at every place is judged alike`() {
        let digits = Array("0123456789abcdefABCDEF".utf8)
        let limits = Array("/09:@AFG`afg".utf8) + [0x10, 0x80, 0xB0, 0xC1, 0xE1]
        for byte in UInt8.min...UInt8.max {
            #expect(isHex(byte) == digits.contains(byte))
            for count in limits.contains(byte) ? 1..<40 : 20..<21 {
                let plain = (0..<count).map { digits[$0 % digits.count] }
                for place in 0..<count {
                    var text = plain
                    text[place] = byte
                    if areHex(text.span) != digits.contains(byte) { Issue.record("byte \(byte) at \(place) of \(count)") }
                }
            }
        }
    }
}
