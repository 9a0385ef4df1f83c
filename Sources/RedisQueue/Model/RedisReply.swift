/// One reply of Redis.
public enum RedisReply: Sendable, Equatable {
    /// A bulk string: any bytes.
    case string([UInt8])
    /// A simple string such as `OK`.
    case status(String)
    case integer(Int64)
    case error(ErrorReply)
    case array([RedisReply])
    case null

    public var integer: Int64? {
        if case .integer(let number) = self { return number }
        return nil
    }

    /// An integer as a number of things. It is bounded, so that sums of counts do not overflow whatever Redis replies.
    var count: Int? { integer.map { Int(clamping: max(0, min($0, 1 << 48))) } }

    public var bytes: [UInt8]? {
        if case .string(let bytes) = self { return bytes }
        return nil
    }

    /// A bulk or simple string as text. Bytes that are not UTF-8 become U+FFFD.
    public var text: String? {
        switch self {
        case .string(let bytes): String(decoding: bytes, as: UTF8.self)
        case .status(let text): text
        default: nil
        }
    }

    public var items: [RedisReply]? {
        if case .array(let items) = self { return items }
        return nil
    }
}
