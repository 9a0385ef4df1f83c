import Harness

/// Bytes that a producer may push by mistake or on purpose. None of them can be sent.
enum HostileJob {
    static func make(_ number: Int, _ random: inout SeededGenerator) -> [UInt8] {
        let token = deviceToken(number)
        let text = #""token":"\#(token)""#
        switch number % 25 {
        case 0: return Array("not JSON at all".utf8)
        case 1: return Array("[1,2,3]".utf8)
        case 2: return Array(repeating: UInt8(ascii: "["), count: 100_000)
        case 3: return Array("{\"a\":".utf8) + Array(repeating: UInt8(ascii: "["), count: 100_000)
        case 4 where number < 25:
            return Array("{\(text),\"data\":{\"aps\":\"".utf8) + Array(repeating: 0x78, count: 20_000_000) + Array("\"}}".utf8)
        case 4: return Array("{\(text),\"data\":{\"aps\":\"\(String(repeating: "x", count: 5000))\"}}".utf8)
        case 5: return Array("{\(text),\"data\":{\"aps\":\"".utf8) + [0] + Array("\"}}".utf8)
        case 6: return Array("{\(text),\"data\":{\"aps\":\"".utf8) + [0xC3, 0x28] + Array("\"}}".utf8)
        case 7: return Array("{\(text),\"identifier\":99999999999999999999999,\"data\":{}}".utf8)
        case 8: return Array(#"{"token":12345,"data":{}}"#.utf8)
        case 9: return Array(#"{"token":"../../etc/passwd","data":{}}"#.utf8)
        case 10: return Array(#"{"token":"abcd/../x","data":{}}"#.utf8)
        case 11: return Array("{\(text),\"data\":{\"a\":\"\(String(repeating: "y", count: 4097 - 8))\"}}".utf8)
        case 12: return Array("{\(text)}".utf8)
        case 13: return Array("{\(text),\"data\":[]}".utf8)
        case 14: return Array("{\(text),\"data\":{},}".utf8)
        case 15: return Array("{\(text) \"data\":{}}".utf8)
        case 16: return Array("{\(text),\"data\":{},\"priority\":7}".utf8)
        case 17: return Array("{\(text),\"data\":{},\"topic\":\"a\\nb\"}".utf8)
        case 18: return Array("{\(text),\"data\":{},\"expiry\":-1}".utf8)
        case 19: return Array("{\(text),\"data\":{},\"apns_id\":\"no uuid\"}".utf8)
        case 20: return Array("{\(text),\"data\":{},\"collapse_id\":\"\(String(repeating: "c", count: 65))\"}".utf8)
        case 21: return Array("{\(text),\"tokens\":[\"ab\"],\"data\":{}}".utf8)
        case 22: return []
        case 23: return Array("{\(text),\"data\":{},\"app\":\"nobody\"}".utf8)
        default: return (0..<200).map { _ in UInt8.random(in: 0...255, using: &random) }
        }
    }
}
