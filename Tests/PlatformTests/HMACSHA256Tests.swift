import Platform
import Testing

@Suite("HMAC-SHA-256")
struct HMACSHA256Tests {
    /// RFC 4231, 4.2, 4.4 and 4.7.
    @Test func `gives the codes of RFC 4231`() {
        #expect(
            HMACSHA256.hexadecimal(of: Array("Hi There".utf8), key: [UInt8](repeating: 0x0B, count: 20))
                == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
        #expect(
            HMACSHA256.hexadecimal(of: [UInt8](repeating: 0xDD, count: 50), key: [UInt8](repeating: 0xAA, count: 20))
                == "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe")
        #expect(
            HMACSHA256.hexadecimal(
                of: Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
                key: [UInt8](repeating: 0xAA, count: 131))
                == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
    }
}
