/// Texts as arguments of a command in the Redis protocol, complete except for the line that counts them.
///
/// A batch of 256 acknowledgements is built in place while the responses arrive, and is copied once. hiredis' formatter cannot
/// do that.
public struct Arguments: Sendable, Equatable, ExpressibleByArrayLiteral {
    private(set) var bytes: [UInt8] = []
    public private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    public init() {}

    /// - Parameter size: of the whole, with about 8 bytes for each argument.
    public init(reservingBytes size: Int) { bytes.reserveCapacity(size) }

    public init(arrayLiteral elements: [UInt8]...) { self.init(elements) }

    init(_ arguments: [String]) {
        for argument in arguments { append(argument) }
    }

    init(_ arguments: [[UInt8]]) {
        for argument in arguments { append(argument) }
    }

    /// The arguments, read back.
    public var texts: [[UInt8]] {
        var texts: [[UInt8]] = []
        var place = 0
        while place < bytes.count {
            var size = 0
            place += 1
            while bytes[place] != UInt8(ascii: "\r") {
                size = size * 10 + Int(bytes[place] - UInt8(ascii: "0"))
                place += 1
            }
            texts.append(Array(bytes[place + 2..<place + 2 + size]))
            place += size + 4
        }
        return texts
    }

    public mutating func append(_ argument: [UInt8]) {
        bytes.appendArgument(argument)
        count += 1
    }

    public mutating func append(_ argument: String) {
        bytes.appendArgument(argument)
        count += 1
    }

    public mutating func append(_ number: Int) {
        bytes.appendArgument(number)
        count += 1
    }

    mutating func append(_ number: UInt64) {
        bytes.appendArgument(number)
        count += 1
    }

    mutating func append(contentsOf other: Arguments) {
        bytes.append(contentsOf: other.bytes)
        count += other.count
    }

    /// A few characters, filled from the end.
    fileprivate struct NumberText {
        private var text = InlineArray<27, UInt8>(repeating: 0)  // `$20`, 20 digits and two line ends
        private var start = 27

        @inline(__always)
        mutating func put(_ character: UInt8) {
            start -= 1
            text[start] = character
        }

        @inline(__always)
        mutating func put(lineEnd: Void) {
            put(UInt8(ascii: "\n"))
            put(UInt8(ascii: "\r"))
        }

        /// Returns the number of digits.
        @inline(__always) @discardableResult
        mutating func put(_ number: UInt64) -> Int {
            let end = start
            var rest = number
            repeat {
                put(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
                rest /= 10
            } while rest > 0
            return end - start
        }

        @inline(__always)
        func append(to bytes: inout [UInt8]) {
            unsafe text.span.extracting(start..<27).withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
        }
    }
}

/// The Redis protocol: each command is an array of bulk strings, `*2 $4 LLEN $1 q` with a line end after each part.
extension [UInt8] {
    /// Writes one whole command.
    mutating func appendCommand(_ arguments: Arguments) {
        appendCommandHead(of: arguments.count)
        append(contentsOf: arguments.bytes)
    }

    /// Writes the line that counts a command's arguments, its name included.
    mutating func appendCommandHead(of count: Int) { appendLine(UInt8(ascii: "*"), UInt64(count)) }

    mutating func appendArgument(_ argument: [UInt8]) {
        appendLine(UInt8(ascii: "$"), UInt64(argument.count))
        append(contentsOf: argument)
        appendLineEnd()
    }

    mutating func appendArgument(_ argument: String) {
        var argument = argument
        argument.withUTF8 { utf8 in
            appendLine(UInt8(ascii: "$"), UInt64(utf8.count))
            unsafe append(contentsOf: utf8)
        }
        appendLineEnd()
    }

    mutating func appendArgument(_ number: Int) {
        if number < 0 { appendArgument(String(number)) } else { appendArgument(UInt64(number)) }
    }

    /// Makes no `String` and one copy: it runs for every acknowledged job.
    mutating func appendArgument(_ number: UInt64) {
        if number < 10 {
            // Most numbers: `$1`, the digit, and their line ends.
            let text: InlineArray<7, UInt8> = [0x24, 0x31, 13, 10, 0x30 + UInt8(truncatingIfNeeded: number), 13, 10]
            return unsafe text.span.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
        }
        var text = Arguments.NumberText()
        text.put(lineEnd: ())
        let count = text.put(number)
        text.put(lineEnd: ())
        text.put(UInt64(count))
        text.put(UInt8(ascii: "$"))
        text.append(to: &self)
    }

    /// Writes one argument that consists of a text and a number.
    mutating func appendArgument(_ text: [UInt8], _ number: UInt64) {
        var end = Arguments.NumberText()
        end.put(lineEnd: ())
        let digits = end.put(number)
        appendLine(UInt8(ascii: "$"), UInt64(text.count + digits))
        append(contentsOf: text)
        end.append(to: &self)
    }

    private mutating func appendLine(_ kind: UInt8, _ number: UInt64) {
        var text = Arguments.NumberText()
        text.put(lineEnd: ())
        text.put(number)
        text.put(kind)
        text.append(to: &self)
    }

    private mutating func appendLineEnd() {
        append(UInt8(ascii: "\r"))
        append(UInt8(ascii: "\n"))
    }
}

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
