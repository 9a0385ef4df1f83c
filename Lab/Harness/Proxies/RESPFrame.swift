/// The length of one value of the Redis protocol: a request or a reply.
enum RESPFrame {
    /// Returns the length of the value at the start of these bytes; `nil` while it is incomplete.
    static func length(of bytes: ArraySlice<UInt8>) -> Int? {
        var rest = bytes
        var values = 1
        while values > 0 {
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            let line = rest[..<end]
            rest = rest[(end + 1)...]
            values -= 1
            let count = Int(String(decoding: line.dropFirst().prefix { $0 != UInt8(ascii: "\r") }, as: UTF8.self)) ?? 0
            switch line.first {
            case UInt8(ascii: "*"): values += max(0, count)
            case UInt8(ascii: "$") where count >= 0:
                guard rest.count >= count + 2 else { return nil }
                rest = rest.dropFirst(count + 2)
            default: break
            }
        }
        return rest.startIndex - bytes.startIndex
    }
}
