/// What Redis said, as a value of our own.
public enum RedisReply: Sendable, Equatable {
    /// A bulk string: any bytes.
    case string([UInt8])
    /// A simple string such as `OK`.
    case status(String)
    case integer(Int64)
    /// An error, its code first: `WRONGTYPE Operation against …`.
    case error(String)
    case array([RedisReply])
    case null

    public var integer: Int64? {
        if case .integer(let number) = self { return number }
        return nil
    }

    public var bytes: [UInt8]? {
        if case .string(let bytes) = self { return bytes }
        return nil
    }

    /// A bulk or simple string as text; bytes that are no UTF-8 become U+FFFD.
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
